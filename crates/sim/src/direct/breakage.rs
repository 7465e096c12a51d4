//! The rules broken on purpose: wrappers around the product, never switches in it.

use usher_domain::direct::aggregate::{Fields, History, Resource};
use usher_domain::direct::effect::Effect;
use usher_domain::direct::event::Event;
use usher_domain::direct::facts::{Hold, Object as ObjectFact, Operation, Policy, Refs, Stamp};
use usher_domain::direct::mark::RequestId;
use usher_domain::direct::observe::Observed;
use usher_domain::direct::phase::Phase;
use usher_domain::direct::reason::Reason;
use usher_domain::direct::reconciler::Direct;
use usher_domain::direct::snapshot::{Container, ReadError, Snapshot};
use usher_domain::object::authority::Authority;
use usher_kernel::{Decision, NameState, Record, Row, Timestamp, Wake};

use crate::clock::{INTERVAL, millis};
use crate::words::words;

words! {
    /// A rule that is broken on purpose.
    Breakage {
        /// A lease is given while another one runs.
        DoubleLease = "double-lease",
        /// A wake-up during a step is lost.
        LoseWakeUp = "lose-wake-up",
        /// A commit compares neither version nor lease.
        SkipVersion = "skip-version-check",
        /// An event is written twice.
        TellTwice = "tell-twice",
        /// No event is written.
        TellNothing = "tell-nothing",
        /// Any reference that does not resolve makes an orphan, and an orphan is released.
        ReleaseOnDependencyError = "release-on-dependency-error",
        /// A failed read counts as absence.
        ErrorIsAbsent = "error-is-absent",
        /// The identity is used in the step that should record it.
        SkipWriteAhead = "skip-write-ahead",
        /// The stamp is taken for written.
        SkipStamp = "skip-stamp",
        /// Whatever has the name is deleted.
        DeleteWithoutPrecondition = "delete-without-precondition",
        /// Deletion asks about the identity that the spec declares.
        SpecOverRecord = "spec-over-record",
        /// Whatever has the name is ours.
        ForeignIsOurs = "foreign-is-ours",
        /// A stamp is believed on whatever object carries it.
        CopyIsBelieved = "copy-is-believed",
        /// What a stamp names is taken for ours.
        StampIsProof = "stamp-is-proof",
        /// An object whose deletion was requested is taken for gone.
        ReleaseBeforeVerify = "release-before-verify",
        /// Configuration references are resolved during teardown.
        ResolveConfiguration = "resolve-configuration-on-delete",
        /// An orphan is released although its policy holds it.
        OrphanUnderHold = "orphan-released-under-hold",
        /// No operation is remembered.
        ForgetOperation = "forget-operation",
        /// Each create has a request of its own.
        LoseRequest = "lose-request-id",
        /// Absence counts at once.
        SkipInFlightGrace = "skip-in-flight-grace",
        /// Nothing is observed after the end.
        SkipWatch = "skip-watch",
        /// A replica that lags is believed.
        TrustLagging = "trust-lagging",
        /// A tripped mass-deletion guard is not heeded.
        IgnoreMassDeletionGuard = "ignore-mass-deletion-guard",
        /// A tripped mass-deletion guard of the cluster is not heeded.
        IgnoreClusterGuard = "ignore-cluster-guard",
        /// What carries our mark is not searched for.
        SkipSearch = "skip-search",
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
        /// A spec that declares another identity is followed.
        FollowSpec = "follow-spec",
        /// Things are created before our finalizer is on.
        SkipFinalizer = "skip-finalizer",
        /// Deletion is forgotten once it was seen.
        LoseIntent = "lose-intent",
        /// A row that ended is dropped with its record.
        ForgetEnded = "forget-ended",
        /// An idle object is polled again and again.
        PollAtRest = "poll-at-rest",
        /// What is as declared waits for a change, although an operation is unknown.
        WaitOnIncomplete = "wait-on-incomplete",
    }
}

impl Breakage {
    /// Before the fold: bends what a snapshot returned.
    pub fn bend_snapshot(self, record: &Record<Resource>, snapshot: &mut Snapshot) {
        let takes_for_gone =
            self == Self::ReleaseBeforeVerify && record.state.fields().asked_at.is_some();
        if self == Self::TrustLagging || takes_for_gone {
            snapshot.authority = Authority::Pinned;
        }
        if self == Self::ForgetOperation || takes_for_gone {
            snapshot.operations = Ok(vec![]);
        }
        snapshot.guard_tripped &= self != Self::IgnoreMassDeletionGuard;
        snapshot.cluster_guard_tripped &= self != Self::IgnoreClusterGuard;
        if self == Self::SkipSearch {
            snapshot.search = snapshot.search.take().map(|_| Ok(vec![]));
        }
        if self == Self::CopyIsBelieved {
            believe(record, snapshot);
        }
        let Some(cloud) = &mut snapshot.cloud else {
            return;
        };
        if takes_for_gone || self == Self::ErrorIsAbsent && cloud.found.is_err() {
            cloud.found = Ok(None);
        }
        if self == Self::RefusedIsGone && cloud.found == Err(ReadError::Refused) {
            cloud.container = Some(Container::Gone);
        }
        let stamped = snapshot.object.iter().flatten().any(|it| it.stamp.is_some());
        let takes_for_ours = self == Self::ForeignIsOurs
            || self == Self::StampIsProof && stamped && record.name_ledger.rows().is_empty();
        if let (true, Ok(Some(found))) = (takes_for_ours, &mut cloud.found) {
            found.mark = Some(record.state.mark());
        }
    }

    /// After the fold: bends what was seen.
    pub fn bend_seen(self, seen: &mut Observed) {
        let facts = &mut seen.facts;
        let leaving = facts.object == ObjectFact::Leaving;
        let gives_up =
            self == Self::ReleaseOnDependencyError && leaving && is_unresolved(facts.refs);
        if gives_up {
            facts.refs = Refs::NotFound;
        }
        if gives_up || self == Self::OrphanUnderHold {
            facts.policy = released(facts.policy);
        }
        if self == Self::IgnoreHold {
            facts.hold = Hold::None;
        }
        let misread = self == Self::IgnoreAbandon && facts.policy == Policy::Abandon
            || self == Self::GuessPolicy && facts.policy == Policy::Unreadable;
        if misread {
            facts.policy = Policy::Hold;
        }
        if self == Self::SkipFinalizer && facts.object == ObjectFact::Unheld {
            facts.object = ObjectFact::Held;
        }
        if self == Self::SkipStamp {
            facts.stamp = Stamp::Current;
        }
    }

    /// Around fold and `decide`: bends the row they read.
    pub fn bend_record(self, record: &Record<Resource>) -> Record<Resource> {
        let mut fields = record.state.fields().clone();
        if self == Self::SkipInFlightGrace {
            fields.grace_until = None;
        }
        if self == Self::ForgetHistory {
            fields.history = History::Witnessed;
        }
        Record { state: rebuilt(&record.state, fields), ..record.clone() }
    }

    /// Around `decide`: bends what was decided.
    pub fn bend_decision(
        self,
        record: &Record<Resource>,
        (seen, now): (&Observed, Timestamp),
        decision: &mut Decision<Direct>,
    ) {
        if self == Self::SkipWriteAhead {
            use_at_once(decision);
        }
        if let (Self::LoseRequest, Some(Effect::Create { mark, .. })) = (self, &mut decision.effect)
        {
            let attempt = u32::try_from(now.as_micros() % 100_000).unwrap_or(0);
            mark.request = RequestId::of(&mark.owner, 1_000 + attempt);
        }
        if self == Self::ResolveConfiguration && is_open(record, seen) {
            wait_for_reference(record, now, decision);
        }
        if self == Self::FollowSpec && seen.facts.object == ObjectFact::Held {
            follow(record, seen, now, decision);
        }
        if self == Self::PollAtRest && decision.wake == Wake::OnChange {
            decision.wake = Wake::At(now.after(millis(INTERVAL)));
        }
        let unknown = seen.facts.operation == Operation::Unknown;
        if self == Self::WaitOnIncomplete && unknown && decision.reason == Reason::AsDeclared {
            decision.wake = Wake::OnChange;
        }
        let mut fields = decision.next.fields().clone();
        if self == Self::SkipInFlightGrace {
            fields.grace_until = None;
        }
        if self == Self::ForgetHistory {
            fields.history = record.state.fields().history;
        }
        decision.next = rebuilt(&decision.next, fields);
    }

    /// Around the Ledger: bends what is emitted.
    pub fn bend_event(self, event: Option<Event>) -> Option<Event> {
        event.filter(|_| self != Self::TellNothing)
    }

    /// Around the Ledger: bends the row that is written.
    pub fn bend_next(self, next: &Resource) -> Resource {
        let mut fields = next.fields().clone();
        let asked = fields.asked_at.is_some() && fields.outcome.is_none();
        if self == Self::LoseIntent && asked {
            fields.phase = Phase::Creating;
            fields.deletion_seen_at = None;
            fields.asked_at = None;
        }
        if self == Self::SkipWatch {
            fields.watch_until = None;
        }
        rebuilt(next, fields)
    }
}

const fn is_unresolved(refs: Refs) -> bool {
    !matches!(refs, Refs::Unasked | Refs::Agrees | Refs::Differs)
}

/// Whether an object being deleted has a reference that does not resolve.
fn is_open(record: &Record<Resource>, seen: &Observed) -> bool {
    let facts = &seen.facts;
    facts.object == ObjectFact::Leaving
        && matches!(facts.policy, Policy::Hold | Policy::Release)
        && record.state.is_leaving()
        && !record.state.is_ended()
        && is_unresolved(facts.refs)
}

const fn released(policy: Policy) -> Policy {
    match policy {
        Policy::Hold => Policy::Release,
        Policy::Release | Policy::Abandon | Policy::Unreadable => policy,
    }
}

/// Rewrites a stamp as if it had been written for this object.
fn believe(record: &Record<Resource>, snapshot: &mut Snapshot) {
    let Ok(Some(object)) = &mut snapshot.object else {
        return;
    };
    let own = record.state.object().uid.0.clone();
    if let Some(stamp) = &mut object.stamp
        && let Some((before, rest)) = stamp.split_once("\"object\":\"")
        && let Some((_, after)) = rest.split_once('"')
    {
        *stamp = format!("{before}\"object\":\"{own}\"{after}");
        // A rule that believes it searches for nothing else.
        snapshot.search = Some(Ok(vec![]));
    }
}

/// Creates in the step that should only have recorded the name.
fn use_at_once(decision: &mut Decision<Direct>) {
    let intends = decision.rows.iter().any(|it| it.state == NameState::Intended);
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

/// Moves on to the identity that the spec declares, although another one is on record.
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

/// The row with these fields, if they keep its invariants.
fn rebuilt(resource: &Resource, fields: Fields) -> Resource {
    Resource::hydrate(fields).unwrap_or_else(|_| resource.clone())
}
