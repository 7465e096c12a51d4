//! The direct resource as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{Book, Decision, Lifecycle, Record, Row, Timestamp, Wake};

use super::aggregate::{Resource, Turned};
use super::deleter::Precondition;
use super::effect::Effect;
use super::event::Event;
use super::observe::Observed;
use super::orphan::OrphanRecord;
use super::proof::{Ended, Outcome, ProvenAbsent};
use super::reason::Reason;
use super::reconcile::rules;
use super::verdict::{EffectKind, EventKind, Rest, Turn, Verdict};

/// The life of a direct resource, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The longest rest in a passing phase.
    pub interval: Duration,
    /// The rest after something failed that will probably fail again, and the longest wait that a
    /// cloud may ask for.
    pub slow: Duration,
    /// How long a request may outlive its driver's lease.
    pub request_bound: Duration,
    /// How long a deleted resource is watched for what a late driver brings back.
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

impl Lifecycle for Direct {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Resource>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let (book, mut rows) = seen.absorbed(&record.book);
        let resource = record.state.identified(seen.found.clone());
        let verdict = rules(seen.row(record, now), seen.facts);
        let turned = self.turned(&resource, &book, (verdict, seen), now);
        let next = resource.turned(verdict, turned, now);
        rows.extend(new_rows(verdict, &next, &book, now));
        let effect = verdict.effect.and_then(|kind| address(kind, record, (&next, &book), seen));
        Decision {
            effect,
            event: verdict.event.and_then(|kind| event(kind, &next)),
            wake: self.wake(verdict.rest, &next, (seen.retry_after, now)),
            next,
            rows,
            reason: verdict.reason,
        }
    }
}

impl Direct {
    fn turned(
        &self,
        resource: &Resource,
        book: &Book,
        (verdict, seen): (Verdict, &Observed),
        now: Timestamp,
    ) -> Turned {
        let (ended, orphan) = match verdict.turn {
            Turn::End(outcome) => ending(outcome, resource, (book, seen), now),
            Turn::Keep | Turn::Intend | Turn::Again | Turn::Ask => (None, None),
        };
        let outcome = ended.as_ref().map(Ended::outcome).or(resource.fields().outcome);
        let watched = outcome.is_some_and(|it| !it.needs_record()) && !book.rows().is_empty();
        let bounded = seen.heard_until.map(|until| until.after(self.request_bound));
        Turned {
            intended: seen.spec.clone(),
            operation: seen.operation.clone(),
            quiet_until: bounded.filter(|until| now < *until),
            watch_until: watched.then(|| now.after(self.keep)),
            ended,
            orphan,
        }
    }

    fn wake(
        &self,
        rest: Rest,
        next: &Resource,
        (retry_after, now): (Option<Duration>, Timestamp),
    ) -> Wake {
        let fields = next.fields();
        match rest {
            Rest::Now => Wake::Now,
            Rest::Poll => Wake::At(now.after(self.interval)),
            Rest::Throttle => {
                let asked = retry_after.unwrap_or(self.interval);
                Wake::At(now.after(asked.clamp(self.interval, self.slow)))
            }
            Rest::Slow => Wake::At(now.after(self.slow)),
            Rest::Quiet => Wake::At(fields.quiet_until.unwrap_or(now)),
            Rest::OnChange => Wake::OnChange,
            Rest::Watch => match fields.watch_until {
                Some(until) => Wake::At(until.min(now.after(self.slow)).max(now)),
                None => Wake::Now,
            },
            Rest::Never => Wake::Never,
        }
    }
}

/// The end with what it rests on. Without that there is none, whatever the rules say.
fn ending(
    outcome: Outcome,
    resource: &Resource,
    (book, seen): (&Book, &Observed),
    now: Timestamp,
) -> (Option<Ended>, Option<OrphanRecord>) {
    if outcome.needs_record() {
        let fields = resource.fields();
        let whose = (&fields.object, resource.binding(), fields.kind.as_str());
        let record = OrphanRecord::new(whose, outcome, book, seen.evidence.clone(), now);
        return (Some(Ended::recorded(&record)), Some(record));
    }
    let proof = match resource.current(book) {
        Some(row) => ProvenAbsent::on_record(row),
        None => ProvenAbsent::never_sent(resource.is_witnessed(), book.rows()),
    };
    (proof.map(|it| Ended::absent(it, outcome == Outcome::Deleted)), None)
}

/// The rows that a verdict adds to what was seen.
fn new_rows(verdict: Verdict, next: &Resource, book: &Book, now: Timestamp) -> Vec<Row> {
    match verdict.turn {
        Turn::Intend => {
            let name = next.identity().map(|it| next.name_of(it));
            name.map(|it| Row::intended(it, "usher", now)).into_iter().collect()
        }
        Turn::End(outcome) if outcome.needs_record() => {
            book.abandon("usher", outcome.as_str(), now)
        }
        Turn::Keep | Turn::Again | Turn::Ask | Turn::End(_) => vec![],
    }
}

fn event(kind: EventKind, next: &Resource) -> Option<Event> {
    Some(match kind {
        EventKind::Ready => Event::Ready,
        EventKind::Deleting => Event::Deleting,
        EventKind::Deleted => Event::Deleted { outcome: next.fields().outcome? },
    })
}

/// Gives a verb the names it needs, from the rows as this step leaves them. A verb whose cloud
/// object is not recorded as ours, or whose end was not recorded before this step, is not done.
fn address(
    kind: EffectKind,
    record: &Record<Resource>,
    (next, book): (&Resource, &Book),
    seen: &Observed,
) -> Option<Effect> {
    let object = next.object().clone();
    let identified = next.identity().cloned();
    let at = || Precondition::of(next.current(book)?, seen.etag.as_deref());
    match kind {
        EffectKind::AddFinalizer => Some(Effect::AddFinalizer { object }),
        EffectKind::Stamp => Some(Effect::Stamp { object, recorded: next.recorded(book)? }),
        EffectKind::Create => Some(Effect::Create { identified: identified?, mark: next.mark() }),
        EffectKind::Update => Some(Effect::Update { identified: identified?, at: at()? }),
        EffectKind::Delete => Some(Effect::Delete { identified: identified?, at: at()? }),
        EffectKind::RemoveFinalizer => {
            let ended = record.state.ended(&record.book)?;
            Some(Effect::RemoveFinalizer { object, ended })
        }
    }
}

#[cfg(test)]
mod tests;
