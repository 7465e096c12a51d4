//! The Usage as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{NameLedger, Reconciled, Reconciler, Record, Row, Timers, Timestamp};

use super::aggregate::{Resolved, Status, Usage};
use super::attempt::{Attempt, Progress};
use super::effect::Effect;
use super::event::Event;
use super::facts;
use super::observe::Observed;
use super::phase::Phase;
use super::reason::Reason;
use super::reconcile::rules;
use super::reference::Role;
use super::replay;
use super::selector::Meant;
use super::verdict::{EffectKind, EventKind, RecordChange, Verdict};

/// The reconciler of a Usage, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageReconciler {
    /// The longest requeue delay while something is waited for.
    pub interval: Duration,
}

impl Default for UsageReconciler {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30) }
    }
}

impl Reconciler for UsageReconciler {
    type State = Usage;
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
        record: &Record<Usage>,
        name_ledger: &NameLedger,
        seen: &Observed,
        now: Timestamp,
    ) -> Reconciled<Self> {
        let usage = &record.state;
        let attempt = replay::next(&seen.denied).map_or(facts::Attempt::None, |(_, it)| it.attempt);
        let verdict = rules(usage.facts(), seen.facts, attempt);
        let next = Usage { status: turned(&usage.status, verdict, seen), ..usage.clone() };
        let rows = match verdict.change {
            Some(RecordChange::Resolve) => intended(seen.meant.as_ref(), name_ledger, now),
            Some(RecordChange::Begin | RecordChange::Settle) | None => vec![],
        };
        Reconciled { verdict, next, rows }
    }

    fn address(
        &self,
        kind: EffectKind,
        record: &Record<Usage>,
        _: (&Usage, &NameLedger),
        seen: &Observed,
    ) -> Option<Effect> {
        let usage = &record.state;
        match kind {
            EffectKind::AddFinalizer => Some(Effect::AddFinalizer),
            EffectKind::Yield => Some(Effect::Yield),
            EffectKind::Retire => Some(Effect::Retire),
            EffectKind::RemoveFinalizer => Some(Effect::RemoveFinalizer),
            EffectKind::Mark => {
                let (object, uid) = seen.unmarked.clone()?;
                Some(Effect::Mark { object, uid, mark: usage.mark().to_owned() })
            }
            EffectKind::Unblock => {
                let (object, uid) = seen.blocking.clone()?;
                Some(Effect::Unblock { object, uid })
            }
            EffectKind::Unmark => {
                let (object, uid, mark) = seen.excess.clone()?;
                Some(Effect::Unmark { object, uid, mark })
            }
            EffectKind::HandOver => {
                let (denied, _) = replay::next(&seen.denied)?;
                let (to, uid) = denied.holder.clone()?;
                let attempt = usage.attempt(&denied.uid)?.clone();
                let attempt = Attempt { progress: Progress::Recorded, ..attempt };
                Some(Effect::HandOver { to, uid, attempt })
            }
            EffectKind::Replay => {
                let (denied, _) = replay::next(&seen.denied)?;
                let attempt = usage.attempt(&denied.uid)?.clone();
                Some(Effect::Replay {
                    object: attempt.object,
                    uid: attempt.uid,
                    propagation: attempt.propagation,
                    revision: denied.revision.clone(),
                })
            }
        }
    }

    fn event(&self, kind: EventKind, usage: &Usage, _: &Usage, seen: &Observed) -> Option<Event> {
        match kind {
            EventKind::Protected => Some(Event::Protected),
            EventKind::Exposed => Some(Event::Exposed),
            EventKind::Released => Some(Event::Released),
            EventKind::AttemptSettled => {
                let (denied, verdict) = replay::next(&seen.denied)?;
                let object = usage.attempt(&denied.uid)?.object.clone();
                let (uid, outcome) = (denied.uid.clone(), verdict.outcome?);
                Some(Event::AttemptSettled { object, uid, outcome })
            }
        }
    }

    fn timers(&self, _: &Usage, _: &Observed) -> Timers {
        Timers { interval: self.interval, ..Timers::default() }
    }

    fn writes_record(kind: EffectKind) -> bool {
        kind.is_own()
    }
}

/// The status after the verdict.
fn turned(status: &Status, verdict: Verdict, seen: &Observed) -> Status {
    let mut next = Status { phase: verdict.phase, ..status.clone() };
    next.proven.clone_from(&seen.proven);
    let dealt = replay::next(&seen.denied).map(|(it, _)| &it.uid);
    match verdict.change {
        None => {}
        Some(RecordChange::Resolve) => {
            if let Some(meant) = &seen.meant {
                next.of = Some(meant.of.clone());
                next.by.clone_from(&meant.by);
            }
        }
        Some(RecordChange::Begin) => {
            for attempt in next.attempts.iter_mut().filter(|it| Some(&it.uid) == dealt) {
                attempt.progress = Progress::Begun;
            }
        }
        Some(RecordChange::Settle) => next.attempts.retain(|it| Some(&it.uid) != dealt),
    }
    next
}

/// The names that are meant, recorded before any of them is used. Those with an open row have one.
fn intended(meant: Option<&Meant>, name_ledger: &NameLedger, now: Timestamp) -> Vec<Row> {
    let Some(meant) = meant else { return vec![] };
    let named = |role: Role, resolved: Option<&Resolved>| {
        let found = resolved.map_or(&[][..], |it| &it.found);
        found.iter().map(|it| role.name(it)).collect::<Vec<_>>()
    };
    let marks = named(Role::Mark, Some(&meant.of));
    let users = named(Role::User, meant.by.as_ref());
    let fresh = marks.into_iter().chain(users).filter_map(|name| {
        let incarnation = match name_ledger.latest(&name) {
            Some(row) if !row.state.is_settled() => return None,
            Some(row) => row.incarnation + 1,
            None => 1,
        };
        Some(Row { incarnation, ..Row::intended(name, "usher", now) })
    });
    fresh.collect()
}

#[cfg(test)]
mod tests;
