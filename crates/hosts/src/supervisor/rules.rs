//! The next action for one process: a pure function of what is observed and what is in memory.
//!
//! Memory is lost when a supervisor dies, so only delays depend on it: a new supervisor sends
//! SIGTERM once more and starts the grace again.

use std::time::Duration;

use usher_kernel::Timestamp;

/// The first back-off after a process exited.
const BACK_OFF_FIRST: Duration = Duration::from_millis(200);
/// The longest back-off.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// A process that ran this long, which is longer than any back-off, is not counted as failing.
const STEADY_AFTER: Duration = Duration::from_mins(1);
/// The poll interval where no event signals a change.
pub(super) const SOON: Duration = Duration::from_millis(100);
/// The delay before SIGKILL is sent again.
const KILLED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The desired state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Run,
    /// It is recorded and runs externally.
    Hold,
    /// It is stopped, and its record removed.
    Stop,
}

/// The observed state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    None,
    /// Started and without its lock: not yet, or not any more. Neither change raises an event.
    Booting,
    Running,
    /// Running, and it has reported that it left.
    Leaving,
    /// Not running: it left cleanly and is not restarted.
    Left,
}

/// What a supervisor keeps in memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Starts since it last ran for at least a minute.
    pub starts: u32,
    pub started_at: Option<Timestamp>,
    /// When SIGTERM was sent.
    pub asked_at: Option<Timestamp>,
    /// When SIGKILL was last sent.
    pub killed_at: Option<Timestamp>,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Start,
    /// Send SIGTERM.
    Ask,
    /// Send SIGKILL.
    Kill,
    /// Remove its record.
    Remove,
    /// Requeue at this time, or when something changes.
    Wait(Timestamp),
    /// Wait for a change.
    Idle,
}

pub fn rules(
    wanted: Wanted,
    process: Process,
    memory: &Memory,
    grace: Duration,
    now: Timestamp,
) -> Act {
    match (wanted, process) {
        (Wanted::Hold, _) | (Wanted::Run, Process::Running | Process::Leaving | Process::Left) => {
            Act::Idle
        }
        (Wanted::Run, Process::None) => start(memory, now),
        (Wanted::Run, Process::Booting) => Act::Wait(now.after(SOON)),
        (Wanted::Stop, Process::None | Process::Left) => Act::Remove,
        (Wanted::Stop, Process::Running | Process::Leaving) => stop(memory, grace, now),
        (Wanted::Stop, Process::Booting) => {
            let act = stop(memory, grace, now);
            let Act::Wait(until) = act else { return act };
            Act::Wait(until.min(now.after(SOON)))
        }
    }
}

fn start(memory: &Memory, now: Timestamp) -> Act {
    let Some(started_at) = memory.started_at else { return Act::Start };
    let not_before = started_at.after(back_off(memory.starts));
    if now >= not_before { Act::Start } else { Act::Wait(not_before) }
}

fn stop(memory: &Memory, grace: Duration, now: Timestamp) -> Act {
    let Some(asked_at) = memory.asked_at else { return Act::Ask };
    let kill_at = match memory.killed_at {
        Some(at) => at.after(KILLED_AGAIN_AFTER),
        None => asked_at.after(grace),
    };
    if now >= kill_at { Act::Kill } else { Act::Wait(kill_at) }
}

fn back_off(starts: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(starts.saturating_sub(1).min(16));
    BACK_OFF_FIRST.saturating_mul(doubled).min(BACK_OFF_MAX)
}

impl Memory {
    #[must_use]
    pub fn started(&self, now: Timestamp) -> Self {
        let steady = self.started_at.is_some_and(|at| now.since(at) >= STEADY_AFTER);
        let starts = if steady { 1 } else { self.starts.saturating_add(1) };
        Self { starts, started_at: Some(now), asked_at: None, killed_at: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn act(wanted: Wanted, process: Process, memory: Memory, now: i64) -> Act {
        rules(wanted, process, &memory, GRACE, at(now))
    }

    #[test]
    fn a_wanted_process_that_does_not_run_is_started() {
        assert_eq!(act(Wanted::Run, Process::None, Memory::default(), 5), Act::Start);
        assert_eq!(act(Wanted::Run, Process::Running, Memory::default(), 5), Act::Idle);
    }

    #[test]
    fn a_booting_process_is_polled_until_it_holds_its_lock() {
        let booting = act(Wanted::Run, Process::Booting, Memory::default(), 5);
        assert_eq!(booting, Act::Wait(at(5).after(SOON)));
    }

    #[test]
    fn a_process_that_left_is_not_restarted() {
        assert_eq!(act(Wanted::Run, Process::Left, Memory::default(), 5), Act::Idle);
        assert_eq!(act(Wanted::Run, Process::Leaving, Memory::default(), 5), Act::Idle);
    }

    #[test]
    fn an_external_process_is_left_alone() {
        let all =
            [Process::None, Process::Booting, Process::Running, Process::Leaving, Process::Left];
        for process in all {
            assert_eq!(act(Wanted::Hold, process, Memory::default(), 5), Act::Idle);
        }
    }

    // Requirement: LW-14
    #[test]
    fn an_exited_process_is_restarted_with_back_off() {
        let mut memory = Memory::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..10 {
            memory = memory.started(now);
            let Act::Wait(until) = rules(Wanted::Run, Process::None, &memory, GRACE, now) else {
                panic!("restarted without back-off");
            };
            waits.push(until.since(now).as_millis());
            now = until;
            assert_eq!(rules(Wanted::Run, Process::None, &memory, GRACE, now), Act::Start);
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(memory.started(now.after(STEADY_AFTER)).starts, 1, "it ran for long");
    }

    #[test]
    fn a_stopped_process_gets_sigterm_and_after_its_grace_sigkill() {
        let asked = Memory { asked_at: Some(at(1_000)), ..Memory::default() };
        let killed = Memory { killed_at: Some(at(11_000)), ..asked };
        let cases = [
            (Memory::default(), 1_000, Act::Ask),
            (asked, 10_999, Act::Wait(at(11_000))),
            (asked, 11_000, Act::Kill),
            (killed, 11_000, Act::Wait(at(12_000))),
            (killed, 12_000, Act::Kill),
        ];
        for (memory, now, expected) in cases {
            for process in [Process::Running, Process::Leaving] {
                assert_eq!(act(Wanted::Stop, process, memory, now), expected, "{memory:?} {now}");
            }
            for process in [Process::None, Process::Left] {
                assert_eq!(act(Wanted::Stop, process, memory, now), Act::Remove);
            }
        }
    }

    #[test]
    fn a_stopping_process_without_its_lock_is_polled_often() {
        let asked = Memory { asked_at: Some(at(1_000)), ..Memory::default() };
        let soon = act(Wanted::Stop, Process::Booting, asked, 2_000);
        assert_eq!(soon, Act::Wait(at(2_000).after(SOON)));
        let last = act(Wanted::Stop, Process::Booting, asked, 10_990);
        assert_eq!(last, Act::Wait(at(11_000)), "its grace ends sooner");
        assert_eq!(act(Wanted::Stop, Process::Booting, asked, 11_000), Act::Kill);
        assert_eq!(act(Wanted::Stop, Process::Booting, Memory::default(), 0), Act::Ask);
    }

    #[test]
    fn a_new_supervisor_sends_sigterm_again_before_sigkill() {
        assert_eq!(act(Wanted::Stop, Process::Running, Memory::default(), 1_000_000), Act::Ask);
    }
}
