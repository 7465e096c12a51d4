//! The direct resource as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{NameLedger, Reconciled, Reconciler, Record, Row, Timers, Timestamp};

use super::aggregate::{Resource, Turned};
use super::deleter::Precondition;
use super::effect::Effect;
use super::event::Event;
use super::observe::Observed;
use super::orphan::OrphanRecord;
use super::phase::Phase;
use super::proof::{Ended, Outcome, ProvenAbsent};
use super::reason::Reason;
use super::reconcile::rules;
use super::verdict::{EffectKind, EventKind, RecordChange, Verdict};

/// The reconciler of a direct resource, with its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The longest requeue delay in a passing phase.
    pub interval: Duration,
    /// The requeue delay after a failure that will probably fail again, and the longest wait that a
    /// cloud may request.
    pub slow: Duration,
    /// How long a request may outlive its worker's lease.
    pub request_bound: Duration,
    /// How long a deleted resource is watched for what a late request creates.
    pub keep: Duration,
}

impl Default for Direct {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            slow: Duration::from_mins(5),
            request_bound: Duration::from_secs(10),
            keep: Duration::from_hours(1),
        }
    }
}

impl Reconciler for Direct {
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
        let resource = record.state.identified(seen.found.clone());
        let verdict = rules(seen.row(record, now), seen.facts);
        let turned = self.turned(&resource, name_ledger, (verdict, seen), now);
        let next = resource.turned(verdict, turned, now);
        let rows = new_rows(verdict, &next, name_ledger, now);
        Reconciled { verdict, next, rows }
    }

    /// A verb whose cloud object is not recorded as ours, or whose end was not recorded before this
    /// step, is not applied.
    fn address(
        &self,
        kind: EffectKind,
        record: &Record<Resource>,
        (next, name_ledger): (&Resource, &NameLedger),
        seen: &Observed,
    ) -> Option<Effect> {
        let object = next.object().clone();
        let identified = next.identity().cloned();
        let at = || Precondition::of(next.current(name_ledger)?, seen.etag.as_deref());
        match kind {
            EffectKind::AddFinalizer => Some(Effect::AddFinalizer { object }),
            EffectKind::Stamp => {
                Some(Effect::Stamp { object, recorded: next.recorded(name_ledger)? })
            }
            EffectKind::Create => {
                Some(Effect::Create { identified: identified?, mark: next.mark() })
            }
            EffectKind::Update => Some(Effect::Update { identified: identified?, at: at()? }),
            EffectKind::Delete => Some(Effect::Delete { identified: identified?, at: at()? }),
            EffectKind::RemoveFinalizer => {
                let ended = record.state.ended(&record.name_ledger)?;
                Some(Effect::RemoveFinalizer { object, ended })
            }
        }
    }

    fn event(&self, kind: EventKind, _: &Resource, next: &Resource, _: &Observed) -> Option<Event> {
        Some(match kind {
            EventKind::Ready => Event::Ready,
            EventKind::Deleting => Event::Deleting,
            EventKind::Deleted => Event::Deleted { outcome: next.fields().outcome? },
        })
    }

    fn timers(&self, next: &Resource, seen: &Observed) -> Timers {
        Timers {
            interval: self.interval,
            slow: self.slow,
            retry_after: seen.retry_after,
            deadline: None,
            in_flight_until: next.fields().grace_until,
            watch_until: next.fields().watch_until,
        }
    }
}

impl Direct {
    fn turned(
        &self,
        resource: &Resource,
        name_ledger: &NameLedger,
        (verdict, seen): (Verdict, &Observed),
        now: Timestamp,
    ) -> Turned {
        let (ended, orphan) = match verdict.change {
            Some(RecordChange::End(outcome)) => ending(outcome, resource, (name_ledger, seen), now),
            Some(RecordChange::Intend | RecordChange::Again | RecordChange::Ask) | None => {
                (None, None)
            }
        };
        let outcome = ended.as_ref().map(Ended::outcome).or(resource.fields().outcome);
        let watched =
            outcome.is_some_and(|it| !it.needs_record()) && !name_ledger.rows().is_empty();
        let bounded = seen.may_act_until.map(|until| until.after(self.request_bound));
        Turned {
            intended: seen.spec.clone(),
            operation: seen.operation.clone(),
            grace_until: bounded.filter(|until| now < *until),
            watch_until: watched.then(|| now.after(self.keep)),
            ended,
            orphan,
        }
    }
}

/// The end with its proof. Without that there is none, whatever the rules say.
fn ending(
    outcome: Outcome,
    resource: &Resource,
    (name_ledger, seen): (&NameLedger, &Observed),
    now: Timestamp,
) -> (Option<Ended>, Option<OrphanRecord>) {
    if outcome.needs_record() {
        let fields = resource.fields();
        let whose = (&fields.object, resource.binding(), fields.kind.as_str());
        let record = OrphanRecord::new(whose, outcome, name_ledger, seen.evidence.clone(), now);
        return (Some(Ended::recorded(&record)), Some(record));
    }
    let proof = match resource.current(name_ledger) {
        Some(row) => ProvenAbsent::on_record(row),
        None => ProvenAbsent::never_sent(resource.is_witnessed(), name_ledger.rows()),
    };
    (proof.map(|it| Ended::absent(it, outcome == Outcome::Deleted)), None)
}

/// The rows that a verdict adds to what was seen.
fn new_rows(
    verdict: Verdict,
    next: &Resource,
    name_ledger: &NameLedger,
    now: Timestamp,
) -> Vec<Row> {
    match verdict.change {
        Some(RecordChange::Intend) => {
            let name = next.identity().map(|it| next.name_of(it));
            name.map(|it| Row::intended(it, "usher", now)).into_iter().collect()
        }
        Some(RecordChange::End(outcome)) if outcome.needs_record() => {
            name_ledger.abandon("usher", outcome.as_str(), now)
        }
        Some(RecordChange::Again | RecordChange::Ask | RecordChange::End(_)) | None => vec![],
    }
}

#[cfg(test)]
mod tests;
