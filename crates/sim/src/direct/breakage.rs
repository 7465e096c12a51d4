//! The rules broken on purpose: wrappers around the product, never switches in it.

use usher_domain::direct::aggregate::{Fields, History, Resource};
use usher_domain::direct::effect::Effect;
use usher_domain::direct::event::Event;
use usher_domain::direct::facts::{Hold, Object as ObjectFact, Policy, Refs};
use usher_domain::direct::life::Direct;
use usher_domain::direct::look::{Container, Look, Silence};
use usher_domain::direct::mark::RequestId;
use usher_domain::direct::observe::Observed;
use usher_domain::direct::phase::Phase;
use usher_domain::direct::reason::Reason;
use usher_domain::object::authority::Authority;
use usher_kernel::{Decision, Record, Row, Standing, Timestamp, Wake};

use crate::clock::{INTERVAL, millis};
use crate::realm::QueueBend;
use crate::words::words;

words! {
    /// A rule that is broken on purpose.
    Breakage {
        /// A lease is given while another one runs.
        DoubleLease = "double-lease",
        /// A wake-up during a step is lost.
        LoseWakeUp = "lose-wake-up",
        /// A commit does not compare versions.
        SkipVersion = "skip-version-check",
        /// An event is written twice.
        TellTwice = "tell-twice",
        /// No event is written.
        TellNothing = "tell-nothing",
        /// Any reference that does not resolve makes an orphan, and an orphan is let go.
        ReleaseOnDependencyError = "release-on-dependency-error",
        /// A failed read counts as absence.
        ErrorIsAbsent = "error-is-absent",
        /// The identity is used in the step that should record it.
        SkipWriteAhead = "skip-write-ahead",
        /// The stamp is taken for written.
        SkipStamp = "skip-stamp",
        /// Whatever has the name is deleted.
        DeleteWithoutPrecondition = "delete-without-precondition",
        /// Deletion asks about what the spec stands for.
        SpecOverRecord = "spec-over-record",
        /// Whatever has the name is ours.
        ForeignIsOurs = "foreign-is-ours",
        /// A stamp is believed on whatever object it stands.
        CopyIsBelieved = "copy-is-believed",
        /// What was asked to go is taken for gone.
        ReleaseBeforeVerify = "release-before-verify",
        /// Configuration references are resolved on the way out.
        ResolveConfiguration = "resolve-configuration-on-delete",
        /// An orphan is let go although its policy holds it.
        OrphanUnderHold = "orphan-released-under-hold",
        /// No operation is remembered.
        ForgetOperation = "forget-operation",
        /// Each create has a request of its own.
        LoseRequest = "lose-request-id",
        /// Absence counts at once.
        SkipQuietTime = "skip-quiet-time",
        /// Nobody looks again after the end.
        SkipWatch = "skip-watch",
        /// A replica that lags is believed.
        TrustLagging = "trust-lagging",
        /// A tripped rail is not heeded.
        IgnoreRail = "ignore-rail",
        /// A refusal means that the container is gone.
        RefusedIsGone = "refused-is-gone",
        /// A hold is not heeded.
        IgnoreHold = "ignore-hold",
        /// A policy that says abandon is read as delete.
        IgnoreAbandon = "ignore-abandon",
        /// A policy that cannot be read is the default.
        GuessPolicy = "guess-policy",
        /// A lost ledger counts as one that never sent anything.
        ForgetHistory = "forget-history",
        /// A spec that stands for another identity is followed.
        FollowSpec = "follow-spec",
        /// Things are created before our finalizer is on.
        SkipFinalizer = "skip-finalizer",
        /// Deletion is forgotten once it was seen.
        LoseIntent = "lose-intent",
        /// A row that ended is dropped with its record.
        ForgetEnded = "forget-ended",
        /// What is steady is looked at again and again.
        PollAtRest = "poll-at-rest",
    }
}

impl Breakage {
    /// What it does to the queue.
    pub const fn bend_queue(self) -> Option<QueueBend> {
        match self {
            Self::DoubleLease => Some(QueueBend::DoubleLease),
            Self::LoseWakeUp => Some(QueueBend::LoseWakeUp),
            _ => None,
        }
    }

    /// Before the fold: bends what a look brought back.
    pub fn bend_look(self, record: &Record<Resource>, look: &mut Look) {
        let asked = record.state.fields().asked_at.is_some();
        match self {
            Self::TrustLagging => look.authority = Authority::Pinned,
            Self::IgnoreRail => look.rail_tripped = false,
            Self::ForgetOperation => look.operations = Ok(vec![]),
            Self::ReleaseBeforeVerify if asked => {
                look.operations = Ok(vec![]);
                look.authority = Authority::Pinned;
            }
            Self::CopyIsBelieved => believe(record, look),
            _ => {}
        }
        let Some(cloud) = &mut look.cloud else {
            return;
        };
        match self {
            Self::ErrorIsAbsent if cloud.found.is_err() => cloud.found = Ok(None),
            Self::RefusedIsGone if cloud.found == Err(Silence::Refused) => {
                cloud.container = Some(Container::Gone);
            }
            Self::ReleaseBeforeVerify if asked => cloud.found = Ok(None),
            Self::ForeignIsOurs => {
                if let Ok(Some(found)) = &mut cloud.found {
                    found.mark = Some(record.state.mark());
                }
            }
            _ => {}
        }
    }

    /// After the fold: bends what was seen.
    pub fn bend_seen(self, seen: &mut Observed) {
        let leaving = seen.facts.object == ObjectFact::Leaving;
        let facts = &mut seen.facts;
        match self {
            Self::ReleaseOnDependencyError if leaving => {
                let fails = !matches!(facts.refs, Refs::Unasked | Refs::Agrees | Refs::Differs);
                if fails {
                    facts.refs = Refs::NotFound;
                    facts.policy = released(facts.policy);
                }
            }
            Self::OrphanUnderHold => facts.policy = released(facts.policy),
            Self::IgnoreHold => facts.hold = Hold::None,
            Self::IgnoreAbandon if facts.policy == Policy::Abandon => facts.policy = Policy::Hold,
            Self::GuessPolicy if facts.policy == Policy::Unreadable => facts.policy = Policy::Hold,
            Self::SkipFinalizer if facts.object == ObjectFact::Unheld => {
                facts.object = ObjectFact::Held;
            }
            Self::SkipStamp => facts.stamp = usher_domain::direct::facts::Stamp::Current,
            _ => {}
        }
    }

    /// Around `decide`: bends the row it reads.
    pub fn bend_record(self, record: &Record<Resource>) -> Record<Resource> {
        let mut fields = record.state.fields().clone();
        match self {
            Self::SkipQuietTime => fields.quiet_until = None,
            Self::ForgetHistory => fields.history = History::Witnessed,
            _ => return record.clone(),
        }
        rebuilt(record, fields)
    }

    /// Around `decide`: bends what was decided.
    pub fn bend_decision(
        self,
        record: &Record<Resource>,
        (seen, now): (&Observed, Timestamp),
        decision: &mut Decision<Direct>,
    ) {
        let leaving = seen.facts.object == ObjectFact::Leaving;
        match self {
            Self::SkipWriteAhead => use_at_once(decision),
            Self::LoseRequest => {
                if let Some(Effect::Create { mark, .. }) = &mut decision.effect {
                    let attempt = u32::try_from(now.as_micros() % 100_000).unwrap_or(0);
                    mark.request = RequestId::of(&mark.owner, 1_000 + attempt);
                }
            }
            Self::ResolveConfiguration
                if leaving
                    && matches!(seen.facts.policy, Policy::Hold | Policy::Release)
                    && record.state.is_leaving()
                    && record.state.ended().is_none() =>
            {
                let fails =
                    !matches!(seen.facts.refs, Refs::Unasked | Refs::Agrees | Refs::Differs);
                if fails {
                    wait_for_reference(record, now, decision);
                }
            }
            Self::FollowSpec if seen.facts.object == ObjectFact::Held => {
                follow(record, seen, now, decision);
            }
            Self::PollAtRest if decision.wake == Wake::OnChange => {
                decision.wake = Wake::At(now.after(millis(INTERVAL)));
            }
            Self::SkipQuietTime => {
                let fields = decision.next.fields().clone();
                let quiet = Fields { quiet_until: None, ..fields };
                if let Ok(next) = Resource::hydrate(quiet) {
                    decision.next = next;
                }
            }
            Self::ForgetHistory => {
                let history = record.state.fields().history;
                let fields = Fields { history, ..decision.next.fields().clone() };
                if let Ok(next) = Resource::hydrate(fields) {
                    decision.next = next;
                }
            }
            _ => {}
        }
    }

    /// Around the Ledger: bends what is told.
    pub fn bend_event(self, event: Option<Event>) -> Option<Event> {
        event.filter(|_| self != Self::TellNothing)
    }

    /// Around the Ledger: bends the row that is written.
    pub fn bend_next(self, next: &Resource) -> Resource {
        let mut fields = next.fields().clone();
        match self {
            Self::LoseIntent if fields.phase == Phase::Deleting && fields.outcome.is_none() => {
                if fields.asked_at.is_some() {
                    fields.phase = Phase::Creating;
                    fields.deletion_seen_at = None;
                    fields.asked_at = None;
                }
            }
            Self::SkipWatch => fields.watch_until = None,
            _ => return next.clone(),
        }
        Resource::hydrate(fields).unwrap_or_else(|_| next.clone())
    }
}

const fn released(policy: Policy) -> Policy {
    match policy {
        Policy::Hold => Policy::Release,
        Policy::Release | Policy::Abandon | Policy::Unreadable => policy,
    }
}

/// Rewrites a stamp as if it had been written for this object.
fn believe(record: &Record<Resource>, look: &mut Look) {
    let Ok(Some(object)) = &mut look.object else {
        return;
    };
    let own = record.state.object().uid.0.clone();
    if let Some(stamp) = &mut object.stamp
        && let Some((before, rest)) = stamp.split_once("\"object\":\"")
        && let Some((_, after)) = rest.split_once('"')
    {
        *stamp = format!("{before}\"object\":\"{own}\"{after}");
    }
}

/// Creates in the step that should only have recorded the name.
fn use_at_once(decision: &mut Decision<Direct>) {
    let intends = decision.rows.iter().any(|it| it.standing == Standing::Intended);
    if let Some(identified) = decision.next.identity().filter(|_| intends).cloned() {
        decision.rows.clear();
        decision.effect = Some(Effect::Create { identified, mark: decision.next.mark() });
    }
}

fn wait_for_reference(record: &Record<Resource>, now: Timestamp, decision: &mut Decision<Direct>) {
    decision.next = record.state.clone();
    decision.rows.clear();
    decision.effect = None;
    decision.event = None;
    decision.wake = Wake::At(now.after(millis(INTERVAL)));
    decision.reason = Reason::ReferenceNotFound;
}

/// Moves on to what the spec stands for, although something else is on record.
fn follow(
    record: &Record<Resource>,
    seen: &Observed,
    now: Timestamp,
    decision: &mut Decision<Direct>,
) {
    if seen.facts.refs != Refs::Differs || record.state.is_leaving() {
        return;
    }
    let fields = decision.next.fields();
    let fields = Fields {
        identity: seen.spec.clone(),
        generation: fields.generation.next(),
        attempt: fields.attempt + 1,
        phase: Phase::Pending,
        ..fields.clone()
    };
    if let Ok(next) = Resource::hydrate(fields)
        && let Some(name) = next.identity().map(|it| next.name_of(it))
    {
        decision.rows.push(Row::intended(name, "usher", now));
        decision.next = next;
        decision.effect = None;
        decision.event = None;
        decision.wake = Wake::Now;
    }
}

fn rebuilt(record: &Record<Resource>, fields: Fields) -> Record<Resource> {
    let state = Resource::hydrate(fields).unwrap_or_else(|_| record.state.clone());
    Record { version: record.version, state, book: record.book.clone() }
}
