//! The resource as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{Name, NameLedger, Reconciled, Reconciler, Record, Timers, Timestamp};

use super::aggregate::{KIND_PEER, Resource};
use super::effect::Effect;
use super::event::{Event, Outcome};
use super::facts::Xr;
use super::observe::Observed;
use super::phase::Phase;
use super::reason::Reason;
use super::reconcile::rules;
use super::verdict::{EffectKind, EventKind, RecordChange, Verdict};
use crate::object::name;

/// The reconciler of a provisioned resource, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broker {
    /// The longest requeue delay in a passing phase.
    pub interval: Duration,
    /// How long each passing phase may last before its reason says so.
    pub deadlines: Deadlines,
}

/// How long each passing phase may last before its reason says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For `Pending` and `Provisioning`.
    pub provisioning: Duration,
    /// For `Enrolling`.
    pub enrolment: Duration,
    /// For `Deregistering`.
    pub drain: Duration,
    /// For `Deprovisioning`.
    pub teardown: Duration,
}

impl Default for Broker {
    fn default() -> Self {
        let deadlines = Deadlines {
            provisioning: Duration::from_mins(30),
            enrolment: Duration::from_mins(15),
            drain: Duration::from_mins(5),
            teardown: Duration::from_mins(30),
        };
        Self { interval: Duration::from_secs(30), deadlines }
    }
}

impl Reconciler for Broker {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;
    type Phase = Phase;
    type Change = RecordChange;
    type EffectKind = EffectKind;
    type EventKind = EventKind;

    fn reconcile(
        &self,
        record: &Record<Resource>,
        name_ledger: &NameLedger,
        seen: &Observed,
        now: Timestamp,
    ) -> Reconciled<Self> {
        let resource = &record.state;
        let mut verdict = rules(resource.facts(name_ledger, now), seen.facts);
        let substrate_ready =
            !resource.is_tearing_down() && matches!(seen.facts.xr, Xr::Ready | Xr::Drifted);
        let next = resource.turned(verdict, substrate_ready, now);
        let rows = match verdict.change {
            Some(RecordChange::Next) => next.intended("usher", now),
            Some(RecordChange::To(_)) | None => vec![],
        };
        if self.is_overdue(resource, verdict, now) {
            verdict.reason = verdict.reason.overdue();
        }
        Reconciled { verdict, next, rows }
    }

    fn address(
        &self,
        kind: EffectKind,
        record: &Record<Resource>,
        (_, name_ledger): (&Resource, &NameLedger),
        _: &Observed,
    ) -> Option<Effect> {
        address(kind, &record.state, name_ledger)
    }

    fn event(&self, kind: EventKind, _: &Resource, _: &Resource, seen: &Observed) -> Option<Event> {
        let message = || seen.failure.clone().unwrap_or_default();
        Some(match kind {
            EventKind::Ready => Event::Ready,
            EventKind::Failed => Event::Failed { message: message() },
            EventKind::Deleted => Event::Deleted { outcome: Outcome::Removed },
        })
    }

    /// A poll ends at the deadline of the phase, so that its reason is reported in time.
    fn timers(&self, next: &Resource, _: &Observed) -> Timers {
        Timers {
            interval: self.interval,
            deadline: self.deadline(next),
            in_flight_until: next.fields().grace_until,
            ..Timers::default()
        }
    }
}

impl Broker {
    fn is_overdue(&self, resource: &Resource, verdict: Verdict, now: Timestamp) -> bool {
        verdict.phase == resource.phase() && self.deadline(resource).is_some_and(|due| due <= now)
    }

    /// When a resource has been in its phase for too long; never, if it may stay there.
    fn deadline(&self, resource: &Resource) -> Option<Timestamp> {
        let deadline = match resource.phase() {
            Phase::Pending | Phase::Provisioning => self.deadlines.provisioning,
            Phase::Enrolling => self.deadlines.enrolment,
            Phase::Deregistering => self.deadlines.drain,
            Phase::Deprovisioning => self.deadlines.teardown,
            Phase::Ready | Phase::Failed | Phase::Deleted => return None,
        };
        Some(resource.fields().phase_since.after(deadline))
    }
}

/// Gives a verb the names it needs, from the rows as of the end of this step. A verb whose object
/// is not recorded as ours is not applied.
pub(super) fn address(
    kind: EffectKind,
    resource: &Resource,
    name_ledger: &NameLedger,
) -> Option<Effect> {
    let generation = resource.generation();
    let is_xr = |name: &Name| *name == resource.xr_name(name.generation);
    match kind {
        EffectKind::CreateAnchor => {
            Some(Effect::CreateAnchor { anchor: resource.anchor_name(generation) })
        }
        EffectKind::IssueToken => {
            Some(Effect::IssueToken { token: name::token(resource.id(), generation), generation })
        }
        EffectKind::Apply => {
            let anchor = name_ledger.seen(&resource.anchor_name(generation))?.uid.clone()?;
            let xr = resource.xr_name(generation);
            let uid = name_ledger.seen(&xr).and_then(|row| row.uid.clone());
            Some(Effect::Apply { xr, uid, anchor })
        }
        EffectKind::DeregisterNode => {
            let row = name_ledger.first_seen(|name| name.kind == KIND_PEER)?;
            let token = name::token(resource.id(), row.name.generation);
            Some(Effect::DeregisterNode { token })
        }
        EffectKind::ReleaseProtection => {
            let row = name_ledger.first_seen(is_xr)?;
            Some(Effect::ReleaseProtection { xr: row.name.clone(), uid: row.uid.clone()? })
        }
        EffectKind::DeleteSubstrate => {
            let row = name_ledger.first_seen(is_xr)?;
            Some(Effect::DeleteSubstrate { xr: row.name.clone(), uid: row.uid.clone()? })
        }
        EffectKind::DeleteAnchor => {
            let row = if resource.is_tearing_down() {
                name_ledger.first_seen(|name| *name == resource.anchor_name(name.generation))?
            } else {
                name_ledger.seen(&resource.anchor_name(generation))?
            };
            Some(Effect::DeleteAnchor { anchor: row.name.clone(), uid: row.uid.clone()? })
        }
    }
}

#[cfg(test)]
mod tests;
