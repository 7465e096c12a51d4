//! From a raw snapshot to facts and sightings: every judgement of trust in one place.
//!
//! **Invariants**
//! - An acknowledgement, a Get and a List are judged alike; only absence from a list differs.
//! - A snapshot that may be older than the last command of this machine says nothing about it.
//! - Unknown is not absent: a missing answer changes no row of the identity ledger.

use usher_kernel::{Answer, Observation, Sighting, Uid, Unknown, Visibility};

use super::accept::Report;
use super::aggregate::Machine;
use super::facts::{Bound, CommandState, Facts, Reported, Restriction};
use super::issue::Token;
use super::phase::Phase;
use super::snapshot::{Listing, Snapshot, Source};

/// One observation: facts to branch on, sightings to record, and the record to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The only part a decision branches on.
    pub facts: Facts,
    /// What becomes identity rows of the same commit.
    pub sightings: Vec<Sighting>,
    /// The record, where it counts.
    pub report: Option<Report>,
    /// A token that was never used, should a command be recorded.
    pub fresh: Token,
}

impl Observation for Observed {
    fn sightings(&self) -> &[Sighting] {
        &self.sightings
    }

    fn visibility(&self) -> Visibility {
        Visibility::judge(
            false,
            false,
            (self.facts.report == Reported::Unknown).then_some(Unknown::Unreachable),
        )
    }
}

/// Judges one snapshot.
pub fn fold(machine: &Machine, snapshot: &Snapshot) -> Observed {
    let stale = is_stale(machine, snapshot);
    let (report, record) = match &snapshot.reading {
        Err(_) => (Reported::Unknown, None),
        // Only its own provider can say anything of a machine.
        Ok(_) if snapshot.by != machine.fields().provider => (Reported::Unknown, None),
        Ok(_) if stale => (Reported::Stale, None),
        Ok(None) if snapshot.source != Source::Get => (Reported::Missing, None),
        // Two answers that contradict each other are none.
        Ok(None) if snapshot.listing == Listing::Names => (Reported::Unknown, None),
        Ok(None) => (Reported::Absent, None),
        Ok(Some(Err(_))) => (Reported::Malformed, None),
        // A record of another machine is an answer to another question.
        Ok(Some(Ok(record))) if record.id() != machine.id() => (Reported::Malformed, None),
        Ok(Some(Ok(record))) => (Reported::of(record.phase()), Some(record)),
    };
    let restriction = if snapshot.superseded {
        Restriction::Superseded
    } else if snapshot.paused {
        Restriction::Paused
    } else if snapshot.listing == Listing::Distrusted {
        Restriction::GuardTripped
    } else {
        Restriction::None
    };
    let facts =
        Facts { restriction, report, binding: record.map_or(Bound::None, |it| bound(machine, it)) };
    // What reappears under the name of a machine that is gone is another machine.
    let ended = machine.phase() == Phase::Gone;
    let sightings = if ended { vec![] } else { vec![sighting(machine, snapshot, facts)] };
    Observed { facts, sightings, report: record.cloned(), fresh: snapshot.fresh }
}

/// Whether the snapshot may show the machine as it was before its last command. A command that is
/// recorded and not known to be sent is about to be sent: for that the machine is queried by
/// itself, and its state before the command is just what is needed.
fn is_stale(machine: &Machine, snapshot: &Snapshot) -> bool {
    let fields = machine.fields();
    let recorded = fields.command == CommandState::Recorded && snapshot.source == Source::Get;
    snapshot.stamp < fields.token && !recorded
}

fn bound(machine: &Machine, record: &Report) -> Bound {
    let Some(named) = record.cluster() else { return Bound::None };
    let is = |it: Option<&super::binding::Binding>| it.is_some_and(|it| it.cluster == *named);
    if is(machine.state().binding()) {
        Bound::Ours
    } else if is(machine.state().asked()) {
        Bound::Asked
    } else {
        Bound::Other
    }
}

fn sighting(machine: &Machine, snapshot: &Snapshot, facts: Facts) -> Sighting {
    let answer = match facts.report {
        Reported::Absent if facts.restriction == Restriction::None => {
            Answer::Absent { settled: true }
        }
        Reported::Absent if facts.restriction == Restriction::GuardTripped => {
            Answer::Unknown(Unknown::GuardTripped)
        }
        Reported::Absent
        | Reported::Unknown
        | Reported::Stale
        | Reported::Missing
        | Reported::Malformed => Answer::Unknown(Unknown::Unreachable),
        Reported::Speculative
        | Reported::Creating
        | Reported::Idle
        | Reported::Configuring
        | Reported::Configured
        | Reported::Draining
        | Reported::Deleting
        | Reported::Failed => Answer::Present { uid: Uid::new(machine.id().as_str()), ours: true },
    };
    Sighting {
        plural: None,
        name: machine.name(),
        answer,
        by: snapshot.by.clone(),
        at: snapshot.at,
    }
}

#[cfg(test)]
mod tests;
