//! The resource as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{Book, Decision, Lifecycle, Name, Record, Timestamp, Wake};

use super::aggregate::{KIND_PEER, Resource};
use super::effect::Effect;
use super::event::{Event, Outcome};
use super::facts::Xr;
use super::observe::Observed;
use super::phase::Phase;
use super::reason::Reason;
use super::reconcile::rules;
use super::verdict::{EffectKind, EventKind, Rest, Turn, Verdict};
use crate::object::name;

/// The life of a provisioned resource, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broker {
    /// The longest rest in a passing phase.
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

impl Lifecycle for Broker {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Resource>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let resource = &record.state;
        let mut rows = record.book.absorb(&seen.sightings);
        let book = record.book.with(&rows);
        let verdict = rules(resource.facts(&book, now), seen.facts);
        let substrate_ready =
            !resource.is_showing_out() && matches!(seen.facts.xr, Xr::Ready | Xr::Drifted);
        let next = resource.turned(verdict, substrate_ready, now);
        if verdict.turn == Turn::Next {
            rows.extend(next.intended("usher", now));
        }
        let reason = if self.is_overdue(resource, verdict, now) {
            verdict.reason.overdue()
        } else {
            verdict.reason
        };
        Decision {
            effect: verdict.effect.and_then(|kind| address(kind, resource, &book)),
            event: verdict.event.map(|kind| event(kind, seen)),
            wake: self.wake(verdict.rest, &next, (seen.is_blind(), now)),
            next,
            rows,
            reason,
        }
    }
}

impl Broker {
    fn is_overdue(&self, resource: &Resource, verdict: Verdict, now: Timestamp) -> bool {
        verdict.phase == resource.phase() && self.deadline(resource).is_some_and(|due| due <= now)
    }

    /// When a resource has been in its phase for too long; never, if it may stay there.
    fn deadline(&self, resource: &Resource) -> Option<Timestamp> {
        let patience = match resource.phase() {
            Phase::Pending | Phase::Provisioning => self.deadlines.provisioning,
            Phase::Enrolling => self.deadlines.enrolment,
            Phase::Deregistering => self.deadlines.drain,
            Phase::Deprovisioning => self.deadlines.teardown,
            Phase::Ready | Phase::Failed | Phase::Deleted => return None,
        };
        Some(resource.fields().phase_since.after(patience))
    }

    /// A look that missed something does not count as rest: nothing may change any more that would
    /// show what it missed. Who looks again anyway does so at its deadline, whose reason is told in
    /// time then.
    fn wake(&self, rest: Rest, next: &Resource, (blind, now): (bool, Timestamp)) -> Wake {
        let later = now.after(self.interval);
        match rest {
            Rest::Now => Wake::Now,
            Rest::OnChange if blind => Wake::At(later),
            Rest::Poll => {
                let deadline = self.deadline(next).filter(|due| now < *due);
                Wake::At(deadline.map_or(later, |due| due.min(later)))
            }
            Rest::Quiet => Wake::At(next.fields().quiet_until.unwrap_or(now)),
            Rest::OnChange => Wake::OnChange,
            Rest::Never => Wake::Never,
        }
    }
}

fn event(kind: EventKind, seen: &Observed) -> Event {
    match kind {
        EventKind::Ready => Event::Ready,
        EventKind::Failed => Event::Failed { message: seen.failure.clone().unwrap_or_default() },
        EventKind::Deleted => Event::Deleted { outcome: Outcome::Removed },
    }
}

/// Gives a verb the names it needs, from the rows as this step leaves them. A verb whose object
/// is not recorded as ours is not done.
pub(super) fn address(kind: EffectKind, resource: &Resource, book: &Book) -> Option<Effect> {
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
            let anchor = book.seen(&resource.anchor_name(generation))?.uid.clone()?;
            let xr = resource.xr_name(generation);
            let uid = book.seen(&xr).and_then(|row| row.uid.clone());
            Some(Effect::Apply { xr, uid, anchor })
        }
        EffectKind::DeregisterNode => {
            let row = book.first_seen(|name| name.kind == KIND_PEER)?;
            let token = name::token(resource.id(), row.name.generation);
            Some(Effect::DeregisterNode { token })
        }
        EffectKind::ReleaseProtection => {
            let row = book.first_seen(is_xr)?;
            Some(Effect::ReleaseProtection { xr: row.name.clone(), uid: row.uid.clone()? })
        }
        EffectKind::DeleteSubstrate => {
            let row = book.first_seen(is_xr)?;
            Some(Effect::DeleteSubstrate { xr: row.name.clone(), uid: row.uid.clone()? })
        }
        EffectKind::DeleteAnchor => {
            let row = if resource.is_showing_out() {
                book.first_seen(|name| *name == resource.anchor_name(name.generation))?
            } else {
                book.seen(&resource.anchor_name(generation))?
            };
            Some(Effect::DeleteAnchor { anchor: row.name.clone(), uid: row.uid.clone()? })
        }
    }
}

#[cfg(test)]
mod tests;
