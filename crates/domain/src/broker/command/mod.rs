//! What an operator can request: each command answers with a change to commit, or a refusal.

use std::time::Duration;

use usher_kernel::{Record, Row, Timestamp};

use super::aggregate::Resource;
use super::event::{Event, Outcome};
use super::facts::GenerationState;
use super::phase::Phase;
use super::refusal::Refusal;

/// What a command changes, written in one transaction guarded by the row's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The row as it shall be.
    pub next: Resource,
    /// The identity rows that change with it.
    pub rows: Vec<Row>,
    pub event: Option<Event>,
}

/// What is outstanding when a command ends the work on the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// When the last lease ends, or ended, that was not released.
    pub may_act_until: Option<Timestamp>,
    /// How long a request may outlive its worker's lease.
    pub request_bound: Duration,
}

impl Outstanding {
    /// Until when absence does not count; `None` if no request can be in flight.
    pub(super) fn grace_until(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.may_act_until?.after(self.request_bound);
        (now < last).then_some(last)
    }
}

/// Records the wish to delete. Allowed from every phase; a second request changes nothing.
pub fn deprovision(resource: &Resource, outstanding: &Outstanding, now: Timestamp) -> Change {
    let next = resource.retired(outstanding.grace_until(now), now);
    let event = (next != *resource).then_some(Event::Deleting);
    Change { next, rows: vec![], event }
}

/// Requests a new generation: the old one is torn down first.
pub fn replace(
    resource: &Resource,
    outstanding: &Outstanding,
    now: Timestamp,
) -> Result<Change, Refusal> {
    let phase = resource.phase();
    let leaving = phase.is_leaving() || resource.deletion_requested_at().is_some();
    if leaving || phase == Phase::Failed {
        return Err(Refusal::NotReplaceable { phase: phase.to_string() });
    }
    let next = if resource.generation_state() == GenerationState::Leaving {
        resource.clone()
    } else {
        resource.replaced(outstanding.grace_until(now), now)
    };
    Ok(Change { next, rows: vec![], event: None })
}

/// Abandons the resource: the sanctioned end of a resource whose world cannot answer any more.
///
/// Every open identity row becomes `abandoned`; those rows are the orphan record.
pub fn abandon(
    record: &Record<Resource>,
    node_registered: bool,
    (by, reason): (&str, &str),
    now: Timestamp,
) -> Result<Change, Refusal> {
    let resource = &record.state;
    let what = resource.id().to_string();
    if reason.trim().is_empty() {
        return Err(Refusal::ReasonRequired { what });
    }
    if node_registered {
        return Err(Refusal::PeerLive { what });
    }
    if resource.phase() == Phase::Deleted {
        return Ok(Change { next: resource.clone(), rows: vec![], event: None });
    }
    let rows = record.name_ledger.abandon(by, reason, now);
    let event = Some(Event::Deleted { outcome: Outcome::Abandoned });
    Ok(Change { next: resource.abandoned(now), rows, event })
}

/// Reaps what was abandoned: its tombstone tears it down after all. No event is emitted.
pub fn reap(record: &Record<Resource>, by: &str, now: Timestamp) -> Result<Change, Refusal> {
    let resource = &record.state;
    if resource.fields().outcome != Some(Outcome::Abandoned) {
        return Err(Refusal::NotAbandoned { what: resource.id().to_string() });
    }
    let rows = record.name_ledger.adopt(by, "reaped", now);
    Ok(Change { next: resource.reaped(now), rows, event: None })
}

#[cfg(test)]
mod tests;
