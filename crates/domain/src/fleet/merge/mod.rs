//! Merges a snapshot into a row: the one place for all four edges and all sources of snapshots.
//!
//! A provider that works asynchronously answers a Drain with "Draining". Code that reads that
//! answer as the end of the drain clears the binding of a machine that is still being drained. Here
//! an answer is a snapshot like any other, and a binding is cleared by the arrival in an unbound
//! phase and by nothing else.

use usher_kernel::Timestamp;

use super::accept::Report;
use super::aggregate::{Deadlines, Dispute, Fields, Machine, State, Target};
use super::binding::Binding;
use super::facts::{CommandState, Hold, RowFacts};
use super::observe::Observed;
use super::phase::Phase;
use super::reconcile::rules;
use super::verdict::{BindingChange, EventKind, RecordChange, Verdict};

/// The outcome of merging one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The row as it shall be.
    pub next: Machine,
    /// Why, and what is to be done.
    pub verdict: Verdict,
}

/// Merges one snapshot into a row.
pub fn merge(machine: &Machine, seen: &Observed, deadlines: &Deadlines, now: Timestamp) -> Merged {
    let row = known(machine, machine.facts(deadlines, now), seen);
    let verdict = rules(row, seen.facts);
    if row.phase == Phase::Gone {
        return Merged { next: machine.clone(), verdict };
    }
    let kept = RecordChange { command: row.command, binding: BindingChange::Kept };
    let RecordChange { command, binding } = verdict.change.unwrap_or(kept);
    let Some(state) = moved(machine, (verdict.phase, binding), seen.report.as_ref()) else {
        // No snapshot that was judged by `observe::fold` lacks what its own phase needs.
        let held = Verdict { effect: None, event: None, phase: row.phase, ..verdict };
        return Merged { next: machine.clone(), verdict: held };
    };
    let records = command == CommandState::Recorded && row.command != CommandState::Recorded;
    let answered = command == CommandState::None && row.command != CommandState::None;
    let disputed = verdict.event == Some(EventKind::Disputed);
    let settled = verdict.event == Some(EventKind::Settled);
    let next = machine.changed(|it| {
        if state.phase() != row.phase {
            it.phase_since = now.max(it.phase_since);
        }
        it.state = state;
        it.command = command;
        // A snapshot that began before this one ended is stale from now on, as one from before a
        // verb.
        if records || answered || verdict.event.is_some() {
            it.token = seen.fresh.max(it.token.next());
        }
        if records {
            it.commanded_at = now.max(it.commanded_at);
        }
        if disputed || row.hold == Hold::Disputed {
            let named = seen.report.as_ref().and_then(named);
            it.disputed = if settled { None } else { named.or(it.disputed.take()) };
        }
        if let Some(report) = &seen.report {
            refresh(it, report);
        }
    });
    Merged { next, verdict }
}

/// The facts of a row in this epoch. A command that an older epoch recorded may have been sent or
/// not; its token is older than every snapshot of this one, so it is not sent any more.
fn known(machine: &Machine, row: RowFacts, seen: &Observed) -> RowFacts {
    let older = machine.fields().token.epoch < seen.fresh.epoch;
    if older && row.command == CommandState::Recorded {
        return RowFacts { command: CommandState::Sent, ..row };
    }
    row
}

/// What a record of a bound machine names.
fn named(report: &Report) -> Option<Dispute> {
    Some(Dispute { cluster: report.cluster()?.clone(), host: report.host.clone()? })
}

/// What a provider may report anew of a machine that does not move.
fn refresh(fields: &mut Fields, report: &Report) {
    fields.offer = fields.offer.after(report.offer.as_ref().ok());
    match (&mut fields.state, &report.host) {
        (
            State::Idle { host, .. }
            | State::Configuring { host, .. }
            | State::Configured { host, .. }
            | State::Draining { host, .. },
            Some(now),
        ) => host.clone_from(now),
        (State::Deleting { host, .. }, now @ Some(_)) => host.clone_from(now),
        (State::Failed { host, error, .. }, now) if report.phase == Phase::Failed => {
            host.clone_from(now);
            error.clone_from(&report.error);
        }
        (
            State::Speculative
            | State::Creating
            | State::Idle { .. }
            | State::Configuring { .. }
            | State::Configured { .. }
            | State::Draining { .. }
            | State::Deleting { .. }
            | State::Failed { .. }
            | State::Gone,
            _,
        ) => {}
    }
}

/// The state that a verdict leads to, with what belongs there.
fn moved(
    machine: &Machine,
    (phase, change): (Phase, BindingChange),
    report: Option<&Report>,
) -> Option<State> {
    let before = machine.state();
    if phase == before.phase() {
        return Some(before.clone());
    }
    let host = report.and_then(|it| it.host.clone()).or_else(|| before.host().cloned());
    let asked = before.asked().cloned();
    let binding = match change {
        BindingChange::Kept => before.binding().cloned(),
        BindingChange::Wanted => match &machine.wanted().target {
            Target::Bind(binding) => Some(binding.clone()),
            Target::Unbound | Target::Release => None,
        },
        BindingChange::Asked => asked.clone(),
        BindingChange::TakenBack | BindingChange::Cleared => None,
    };
    let asked = match change {
        BindingChange::TakenBack => before.binding().cloned(),
        BindingChange::Kept => asked,
        BindingChange::Wanted | BindingChange::Asked | BindingChange::Cleared => None,
    };
    let bound = |with: fn(super::aggregate::Host, Binding) -> State| {
        Some(with(host.clone()?, binding.clone()?))
    };
    match phase {
        Phase::Speculative => Some(State::Speculative),
        Phase::Creating => Some(State::Creating),
        Phase::Idle => Some(State::Idle { host: host?, asked }),
        Phase::Configuring => bound(|host, binding| State::Configuring { host, binding }),
        Phase::Configured => bound(|host, binding| State::Configured { host, binding }),
        Phase::Draining => bound(|host, binding| State::Draining { host, binding }),
        Phase::Deleting => Some(State::Deleting { host, asked }),
        Phase::Failed => {
            let error = report.map(|it| it.error.clone()).filter(|it| !it.is_empty())?;
            Some(State::Failed { host, binding, error })
        }
        Phase::Gone => Some(State::Gone),
    }
}

#[cfg(test)]
mod tests;
