//! What happens next to a machine, and why.
//!
//! The checks in order: may the snapshot be acted upon, what does the provider report, does it name
//! our cluster, and then: is the machine where the row has it, where its command began, or
//! elsewhere.

use usher_kernel::{Requeue, Timestamp};

use super::aggregate::{Deadlines, Machine};
use super::facts::{Bound, CommandState, Facts, Hold, Pace, Reported, Restriction, RowFacts, Want};
use super::phase::Phase;
use super::reason::Reason;
use super::verdict::{BindingChange, EffectKind, EventKind, RecordChange, Verdict, cross, held};

/// The verdict for one cell of the table.
pub fn rules(row: RowFacts, seen: Facts) -> Verdict {
    let hold = |requeue, reason| Verdict::wait(row.phase, requeue, reason);
    if row.phase == Phase::Gone {
        return held(Phase::Gone, CommandState::None, Requeue::Never, Reason::Gone);
    }
    if seen.restriction == Restriction::Superseded {
        return hold(Requeue::Poll, Reason::FencedByNewerEpoch);
    }
    let phase = match (seen.report, seen.report.phase()) {
        (Reported::Absent, _) => return absent(row, seen.restriction),
        (Reported::Missing, _) => return hold(Requeue::Now, Reason::MissingFromList),
        (Reported::Stale, _) => return hold(Requeue::Poll, Reason::StaleObservation),
        (Reported::Malformed, _) => return hold(Requeue::Poll, Reason::ProviderRecordInvalid),
        (_, None) => return hold(Requeue::Poll, Reason::Unreachable),
        (_, Some(phase)) => phase,
    };
    if phase.is_bound() && !agrees(row.phase, seen.binding) {
        return disputed(row);
    }
    if row.hold == Hold::Disputed {
        let settled = hold(Requeue::Now, Reason::BindingSettled);
        return Verdict { event: Some(EventKind::Settled), ..settled };
    }
    if phase == row.phase {
        stay(row, seen.restriction)
    } else if row.phase.origin() == Some(phase) {
        undone(row)
    } else {
        follow(row.phase, phase, seen.binding)
    }
}

/// Why a machine is where its row has it: the verdict if its provider shows it just there.
pub fn as_recorded(
    machine: &Machine,
    deadlines: &Deadlines,
    restriction: Restriction,
    now: Timestamp,
) -> Verdict {
    let (report, binding) = match machine.phase() {
        _ if machine.fields().disputed.is_some() => (Reported::Configured, Bound::Other),
        Phase::Configuring | Phase::Configured | Phase::Draining => {
            (Reported::of(machine.phase()), Bound::Ours)
        }
        Phase::Speculative
        | Phase::Creating
        | Phase::Idle
        | Phase::Deleting
        | Phase::Failed
        | Phase::Gone => (Reported::of(machine.phase()), Bound::None),
    };
    rules(machine.facts(deadlines, now), Facts { restriction, report, binding })
}

/// Only a positive answer about this very machine ends it, and none with the guard tripped.
fn absent(row: RowFacts, restriction: Restriction) -> Verdict {
    let hold = |reason| Verdict::wait(row.phase, Requeue::Poll, reason);
    match restriction {
        Restriction::GuardTripped => hold(Reason::MassDeletionGuardTripped),
        Restriction::Paused => hold(Reason::Paused),
        Restriction::Superseded => hold(Reason::FencedByNewerEpoch),
        Restriction::None => Verdict {
            event: Some(EventKind::Gone),
            requeue: Requeue::Never,
            ..cross(Phase::Gone, BindingChange::Cleared, Reason::Gone)
        },
    }
}

/// Whether the cluster that a provider names for a bound machine is the one of the row.
const fn agrees(row: Phase, named: Bound) -> bool {
    match row {
        Phase::Configuring | Phase::Configured | Phase::Draining | Phase::Failed => {
            matches!(named, Bound::Ours)
        }
        Phase::Idle | Phase::Deleting => matches!(named, Bound::Asked),
        Phase::Speculative | Phase::Creating | Phase::Gone => false,
    }
}

/// Nothing is done to a machine that another cluster may be using.
fn disputed(row: RowFacts) -> Verdict {
    let held = held(row.phase, CommandState::None, Requeue::Poll, Reason::BindingDisputed);
    let new = row.hold != Hold::Disputed;
    Verdict { event: new.then_some(EventKind::Disputed), ..held }
}

/// The provider sees the machine where the row has it.
fn stay(row: RowFacts, restriction: Restriction) -> Verdict {
    let rest = |reason| held(row.phase, CommandState::None, Requeue::OnChange, reason);
    let begin = |phase, binding| {
        if restriction == Restriction::Paused {
            return held(row.phase, CommandState::None, Requeue::Poll, Reason::Paused);
        }
        let change = RecordChange { command: CommandState::Recorded, binding };
        cross(phase, binding, Reason::CommandRecorded).change_record(change)
    };
    match (row.phase, row.want) {
        (Phase::Speculative, Want::Bind | Want::Rebind) => {
            begin(Phase::Creating, BindingChange::Kept)
        }
        (Phase::Speculative, Want::Unbound | Want::Release) => rest(Reason::Unused),
        (Phase::Idle, Want::Bind | Want::Rebind) => {
            begin(Phase::Configuring, BindingChange::Wanted)
        }
        (Phase::Idle, Want::Unbound) => rest(Reason::Spare),
        (Phase::Idle, Want::Release) => begin(Phase::Deleting, BindingChange::Kept),
        (Phase::Configured, Want::Bind) => rest(Reason::AsDeclared),
        (Phase::Configured, Want::Rebind | Want::Unbound | Want::Release) => {
            begin(Phase::Draining, BindingChange::Kept)
        }
        (Phase::Creating | Phase::Configuring | Phase::Draining | Phase::Deleting, _) => pass(row),
        (Phase::Failed, _) => clean_up(row, restriction),
        (Phase::Gone, _) => rest(Reason::Gone),
    }
}

/// A passing phase: the command is sent, awaited, or repeated.
fn pass(row: RowFacts) -> Verdict {
    match (row.command, row.pace) {
        (CommandState::Recorded, _) => send(row),
        (CommandState::None, Pace::Overdue) => repeat(row, overdue(row.phase)),
        (CommandState::Sent, _) | (CommandState::None, Pace::InTime) => {
            held(row.phase, CommandState::None, Requeue::Poll, waiting(row.phase))
        }
    }
}

/// The provider sees the machine where its command began: the command has had no effect.
fn undone(row: RowFacts) -> Verdict {
    let wanted = match row.phase {
        Phase::Creating => matches!(row.want, Want::Bind | Want::Rebind),
        Phase::Configuring => row.want == Want::Bind,
        Phase::Draining => row.want != Want::Bind,
        Phase::Deleting => row.want == Want::Release,
        Phase::Speculative | Phase::Idle | Phase::Configured | Phase::Failed | Phase::Gone => false,
    };
    match (wanted, row.command) {
        (true, CommandState::Recorded) => send(row),
        (true, CommandState::Sent | CommandState::None) => repeat(row, Reason::CommandRepeated),
        (false, _) => take_back(row.phase),
    }
}

/// A command without effect that is no longer needed is withdrawn, but stays recorded: the request
/// may still arrive.
fn take_back(phase: Phase) -> Verdict {
    let origin = match phase {
        Phase::Creating => Phase::Speculative,
        Phase::Configuring | Phase::Deleting => Phase::Idle,
        Phase::Draining => Phase::Configured,
        Phase::Speculative | Phase::Idle | Phase::Configured | Phase::Failed | Phase::Gone => phase,
    };
    let binding =
        if phase == Phase::Configuring { BindingChange::TakenBack } else { BindingChange::Kept };
    cross(origin, binding, Reason::CommandWithdrawn)
}

/// The provider sees the machine elsewhere: the row follows, although there was no command.
fn follow(from: Phase, to: Phase, named: Bound) -> Verdict {
    let unbound = matches!(from, Phase::Idle | Phase::Deleting);
    let binding = match to {
        Phase::Configuring | Phase::Configured | Phase::Draining | Phase::Failed => {
            if unbound && named == Bound::Asked {
                BindingChange::Asked
            } else {
                BindingChange::Kept
            }
        }
        Phase::Speculative | Phase::Creating | Phase::Idle | Phase::Deleting | Phase::Gone => {
            BindingChange::Cleared
        }
    };
    let reason = if to == Phase::Failed {
        Reason::ProviderReportedFailure
    } else if from == Phase::Failed {
        Reason::Recovered
    } else if from.goal() == Some(to) {
        Reason::CommandCompleted
    } else if footing(to) < footing(from) {
        Reason::HostLost
    } else {
        Reason::UnexpectedTransition
    };
    cross(to, binding, reason)
}

/// How much a machine has that can be lost: nothing, a host, a place in a cluster.
const fn footing(phase: Phase) -> u8 {
    match phase {
        Phase::Speculative | Phase::Creating | Phase::Gone => 0,
        Phase::Idle | Phase::Deleting | Phase::Failed => 1,
        Phase::Configuring | Phase::Configured | Phase::Draining => 2,
    }
}

/// A failed machine is salvaged once its user had time to drain; one that is held, once its
/// holder says that it is unused.
fn clean_up(row: RowFacts, restriction: Restriction) -> Verdict {
    let rest = |requeue, reason| held(row.phase, CommandState::None, requeue, reason);
    let is_kept = row.hold == Hold::Held && row.want != Want::Release;
    match (row.command, row.pace) {
        (CommandState::Recorded, _) => send(row),
        (CommandState::Sent, _) => rest(Requeue::Poll, Reason::Failed),
        (CommandState::None, _) if is_kept => rest(Requeue::OnChange, Reason::FailedAndHeld),
        (CommandState::None, Pace::InTime) => rest(Requeue::Deadline, Reason::Failed),
        (CommandState::None, Pace::Overdue) if restriction == Restriction::Paused => {
            rest(Requeue::Poll, Reason::Paused)
        }
        (CommandState::None, Pace::Overdue) => repeat(row, Reason::CleaningUp),
    }
}

fn send(row: RowFacts) -> Verdict {
    let verb = match row.phase {
        Phase::Creating => EffectKind::Create,
        Phase::Configuring => EffectKind::Configure,
        Phase::Draining => EffectKind::Drain,
        Phase::Failed => EffectKind::Salvage,
        Phase::Deleting | Phase::Speculative | Phase::Idle | Phase::Configured | Phase::Gone => {
            EffectKind::Delete
        }
    };
    let sent = held(row.phase, CommandState::Sent, Requeue::Poll, Reason::CommandSent);
    Verdict { effect: Some(verb), ..sent }
}

/// A new token for the command of the phase; it is sent by the next step.
fn repeat(row: RowFacts, reason: Reason) -> Verdict {
    held(row.phase, CommandState::Recorded, Requeue::Now, reason)
}

const fn waiting(phase: Phase) -> Reason {
    match phase {
        Phase::Creating => Reason::WaitingForHost,
        Phase::Configuring => Reason::WaitingForNode,
        Phase::Draining => Reason::WaitingForDrain,
        Phase::Deleting
        | Phase::Speculative
        | Phase::Idle
        | Phase::Configured
        | Phase::Failed
        | Phase::Gone => Reason::WaitingForDeletion,
    }
}

const fn overdue(phase: Phase) -> Reason {
    match phase {
        Phase::Creating => Reason::CreateOverdue,
        Phase::Configuring => Reason::ConfigureOverdue,
        Phase::Draining => Reason::DrainOverdue,
        Phase::Deleting
        | Phase::Speculative
        | Phase::Idle
        | Phase::Configured
        | Phase::Failed
        | Phase::Gone => Reason::DeleteOverdue,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::aggregate::Target;
    use crate::fleet::fixture::{NOW, START, binding, dispute, machine, resource, state, wanted};

    fn reason(machine: &Machine, restriction: Restriction, now: Timestamp) -> Reason {
        as_recorded(machine, &Deadlines::default(), restriction, now).reason
    }

    // Requirement: F-57
    #[test]
    fn a_row_explains_itself_without_a_snapshot() {
        let bind = || Target::Bind(binding("a"));
        let cases = [
            (wanted(Phase::Speculative, Target::Release), Reason::Unused),
            (wanted(Phase::Idle, Target::Unbound), Reason::Spare),
            (wanted(Phase::Configured, bind()), Reason::AsDeclared),
            (wanted(Phase::Configuring, bind()), Reason::WaitingForNode),
            (wanted(Phase::Draining, Target::Unbound), Reason::WaitingForDrain),
            (wanted(Phase::Failed, Target::Release), Reason::Failed),
            (wanted(Phase::Gone, Target::Release), Reason::Gone),
            (machine(|it| it.disputed = Some(dispute("x"))), Reason::BindingDisputed),
        ];
        for (machine, expected) in cases {
            assert_eq!(reason(&machine, Restriction::None, NOW), expected, "{:?}", machine.state());
        }
        let held = machine(|it| {
            it.state = state(Phase::Failed);
            it.holder = Some(resource(1));
        });
        assert_eq!(reason(&held, Restriction::None, NOW), Reason::FailedAndHeld);
        let late = START.after(Duration::from_mins(26));
        let draining = wanted(Phase::Draining, Target::Unbound);
        assert_eq!(reason(&draining, Restriction::None, late), Reason::DrainOverdue);
        let wanted_elsewhere = wanted(Phase::Idle, bind());
        assert_eq!(reason(&wanted_elsewhere, Restriction::Paused, NOW), Reason::Paused);
    }
}
