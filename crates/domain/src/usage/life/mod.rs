//! The Usage as a lifecycle of the kernel: facts in, names out.

use std::time::Duration;

use usher_kernel::{Book, Decision, Lifecycle, Record, Row, Timestamp, Wake};

use super::aggregate::{Resolved, Status, Usage};
use super::attempt::{Attempt, Progress};
use super::effect::Effect;
use super::event::Event;
use super::observe::{Deal, Observed};
use super::reason::Reason;
use super::reconcile::rules;
use super::reference::Role;
use super::selector::Meant;
use super::verdict::{EffectKind, EventKind, Rest, Turn, Verdict};

/// The life of a Usage, with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The longest rest while something is waited for.
    pub interval: Duration,
}

impl Default for Life {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30) }
    }
}

impl Lifecycle for Life {
    type State = Usage;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Usage>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let usage = &record.state;
        let mut rows = record.book.absorb(&seen.sightings);
        let book = record.book.with(&rows);
        let verdict = rules(usage.facts(), seen.facts);
        let next = Usage { status: turned(&usage.status, verdict, seen), ..usage.clone() };
        if verdict.turn == Some(Turn::Resolve) {
            rows.extend(intended(seen.meant.as_ref(), &book, now));
        }
        let mut effect = verdict.effect.and_then(|kind| address(kind, usage, seen));
        let mut wake = self.wake(verdict.rest, seen.is_blind(), now);
        // A verb on the Usage moves the version that this commit compares: what this look brought
        // is recorded first.
        let records = !rows.is_empty() || next != *usage;
        if records && effect.as_ref().is_some_and(|it| it.kind().is_own()) {
            effect = None;
            wake = Wake::Now;
        }
        let event = verdict.event.and_then(|kind| event(kind, usage, seen));
        Decision { next, rows, effect, event, wake, reason: verdict.reason }
    }
}

impl Life {
    /// A look that missed something does not count as rest.
    fn wake(&self, rest: Rest, blind: bool, now: Timestamp) -> Wake {
        match rest {
            Rest::Now => Wake::Now,
            Rest::OnChange if blind => Wake::At(now.after(self.interval)),
            Rest::Poll => Wake::At(now.after(self.interval)),
            Rest::OnChange => Wake::OnChange,
            Rest::Never => Wake::Never,
        }
    }
}

/// The status as the verdict leaves it.
fn turned(status: &Status, verdict: Verdict, seen: &Observed) -> Status {
    let mut next = Status { phase: verdict.phase, ..status.clone() };
    next.proven.clone_from(&seen.proven);
    let dealt = seen.attempt.as_ref().map(|it| &it.uid);
    match verdict.turn {
        None => {}
        Some(Turn::Resolve) => {
            if let Some(meant) = &seen.meant {
                next.of = Some(meant.of.clone());
                next.by.clone_from(&meant.by);
            }
        }
        Some(Turn::Begin) => {
            for attempt in next.attempts.iter_mut().filter(|it| Some(&it.uid) == dealt) {
                attempt.progress = Progress::Begun;
            }
        }
        Some(Turn::Settle) => next.attempts.retain(|it| Some(&it.uid) != dealt),
    }
    next
}

/// The names that are meant, recorded before any of them is used. Those with an open row have one.
fn intended(meant: Option<&Meant>, book: &Book, now: Timestamp) -> Vec<Row> {
    let Some(meant) = meant else { return vec![] };
    let named = |role: Role, resolved: Option<&Resolved>| {
        let found = resolved.map_or(&[][..], |it| &it.found);
        found.iter().map(|it| role.name(it)).collect::<Vec<_>>()
    };
    let marks = named(Role::Mark, Some(&meant.of));
    let users = named(Role::User, meant.by.as_ref());
    let fresh = marks.into_iter().chain(users).filter_map(|name| {
        let incarnation = match book.latest(&name) {
            Some(row) if !row.standing.is_settled() => return None,
            Some(row) => row.incarnation + 1,
            None => 1,
        };
        Some(Row { incarnation, ..Row::intended(name, "usher", now) })
    });
    fresh.collect()
}

fn event(kind: EventKind, usage: &Usage, seen: &Observed) -> Option<Event> {
    match kind {
        EventKind::Protected => Some(Event::Protected),
        EventKind::Exposed => Some(Event::Exposed),
        EventKind::Released => Some(Event::Released),
        EventKind::AttemptSettled => {
            let dealt = seen.attempt.as_ref()?;
            let object = usage.attempt(&dealt.uid)?.object.clone();
            match dealt.deal {
                Deal::Settle(outcome) => {
                    Some(Event::AttemptSettled { object, uid: dealt.uid.clone(), outcome })
                }
                Deal::HandOver(..) | Deal::Replay(_) => None,
            }
        }
    }
}

/// Gives a verb the names it needs.
fn address(kind: EffectKind, usage: &Usage, seen: &Observed) -> Option<Effect> {
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
        EffectKind::HandOver | EffectKind::Replay => {
            let dealt = seen.attempt.as_ref()?;
            let attempt = usage.attempt(&dealt.uid)?.clone();
            match &dealt.deal {
                Deal::Settle(_) => None,
                Deal::HandOver(to, uid) => {
                    let attempt = Attempt { progress: Progress::Recorded, ..attempt };
                    Some(Effect::HandOver { to: to.clone(), uid: uid.clone(), attempt })
                }
                Deal::Replay(revision) => Some(Effect::Replay {
                    object: attempt.object,
                    uid: attempt.uid,
                    propagation: attempt.propagation,
                    revision: revision.clone(),
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
