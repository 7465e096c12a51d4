//! What to do with one process next: pure, from what is seen and what is remembered.
//!
//! What is remembered is lost when a supervisor dies. So nothing here depends on it but patience:
//! a new supervisor asks a process to end once more and counts its grace again.

use std::time::Duration;

use usher_kernel::Timestamp;

/// The first wait after a process ended by itself.
const BACK_OFF_FIRST: Duration = Duration::from_millis(200);
/// The longest wait.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// Whoever ran this long, which no wait is, is not counted as failing.
const STEADY_AFTER: Duration = Duration::from_mins(1);
/// How soon to look again at what does not tell of its changes.
pub(super) const SOON: Duration = Duration::from_millis(100);
/// How soon a process that was killed is looked at again.
const KILLED_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What its owner wants of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It runs.
    Run,
    /// It is recorded, and somebody else runs it.
    Hold,
    /// It ends, and its record goes.
    Stop,
}

/// What is seen of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// None runs.
    None,
    /// One was started and does not hold its lock: not yet, or not any more. Neither its locking
    /// nor its end is told.
    Booting,
    /// One runs.
    Running,
    /// One runs and has said that it left.
    Leaving,
    /// None runs: the last one left in order and does not come back.
    Left,
}

/// What a supervisor remembers of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// How often it was started without having run for long.
    pub starts: u32,
    /// When it was started last.
    pub started_at: Option<Timestamp>,
    /// When it was asked to end.
    pub asked_at: Option<Timestamp>,
    /// When it was killed last.
    pub killed_at: Option<Timestamp>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start it.
    Start,
    /// Ask it to end.
    Ask,
    /// End it.
    Kill,
    /// Take its record away.
    Remove,
    /// Look again then, or when something changes.
    Wait(Timestamp),
    /// Look again when something changes.
    Rest,
}

/// The next act.
pub fn rules(
    wanted: Wanted,
    process: Process,
    memory: &Memory,
    grace: Duration,
    now: Timestamp,
) -> Act {
    match (wanted, process) {
        (Wanted::Hold, _) | (Wanted::Run, Process::Running | Process::Leaving | Process::Left) => {
            Act::Rest
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
    /// After a start.
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
    fn what_shall_run_and_does_not_is_started() {
        assert_eq!(act(Wanted::Run, Process::None, Memory::default(), 5), Act::Start);
        assert_eq!(act(Wanted::Run, Process::Running, Memory::default(), 5), Act::Rest);
    }

    #[test]
    fn what_was_started_is_looked_at_until_it_holds_its_lock() {
        let booting = act(Wanted::Run, Process::Booting, Memory::default(), 5);
        assert_eq!(booting, Act::Wait(at(5).after(SOON)));
    }

    #[test]
    fn who_left_is_not_started_again() {
        assert_eq!(act(Wanted::Run, Process::Left, Memory::default(), 5), Act::Rest);
        assert_eq!(act(Wanted::Run, Process::Leaving, Memory::default(), 5), Act::Rest);
    }

    #[test]
    fn what_somebody_else_runs_is_left_alone() {
        let all =
            [Process::None, Process::Booting, Process::Running, Process::Leaving, Process::Left];
        for process in all {
            assert_eq!(act(Wanted::Hold, process, Memory::default(), 5), Act::Rest);
        }
    }

    // Requirement: LW-14
    #[test]
    fn what_ends_by_itself_is_started_again_ever_later() {
        let mut memory = Memory::default();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..10 {
            memory = memory.started(now);
            let Act::Wait(until) = rules(Wanted::Run, Process::None, &memory, GRACE, now) else {
                panic!("started again at once");
            };
            waits.push(until.since(now).as_millis());
            now = until;
            assert_eq!(rules(Wanted::Run, Process::None, &memory, GRACE, now), Act::Start);
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(memory.started(now.after(STEADY_AFTER)).starts, 1, "it ran for long");
    }

    #[test]
    fn what_shall_stop_is_asked_and_after_its_grace_killed_until_it_is_gone() {
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
    fn what_does_not_hold_its_lock_is_looked_at_often_while_it_ends() {
        let asked = Memory { asked_at: Some(at(1_000)), ..Memory::default() };
        let soon = act(Wanted::Stop, Process::Booting, asked, 2_000);
        assert_eq!(soon, Act::Wait(at(2_000).after(SOON)));
        let last = act(Wanted::Stop, Process::Booting, asked, 10_990);
        assert_eq!(last, Act::Wait(at(11_000)), "its grace ends sooner");
        assert_eq!(act(Wanted::Stop, Process::Booting, asked, 11_000), Act::Kill);
        assert_eq!(act(Wanted::Stop, Process::Booting, Memory::default(), 0), Act::Ask);
    }

    #[test]
    fn a_new_supervisor_asks_again_before_it_kills() {
        assert_eq!(act(Wanted::Stop, Process::Running, Memory::default(), 1_000_000), Act::Ask);
    }
}
