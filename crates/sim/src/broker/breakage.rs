//! Rules broken on purpose, one at a time: a checker that misses one is no checker.
//!
//! Each is a wrapper around `decide`, the World or the Ledger. The product has no switch for any.

use std::collections::BTreeMap;

use usher_domain::broker::aggregate::{Fields, KIND_TOKEN, Resource};
use usher_domain::broker::event::Event;
use usher_domain::broker::facts::{Anchor, Composed, GenerationState, Node, Token, Xr};
use usher_domain::broker::observe::Observed;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::side_writes::SideWrites;
use usher_domain::broker::snapshot::{ComposedState, Guard, Snapshot};
use usher_domain::object::authority::Authority;
use usher_kernel::{Answer, Decision, Generation, NameState, Record, Timestamp, Visibility};

use crate::broker::outside::Kind;
use crate::words::words;

words! {
    /// A rule broken on purpose.
    Breakage {
        /// The substrate is deleted first, the node afterwards.
        SwapTeardown = "swap-teardown-branches",
        /// Peers that could not be asked count as gone.
        NodeUnknownIsGone = "unknown-node-is-gone",
        /// A read that failed counts as absent.
        ErrorIsAbsent = "error-is-absent",
        /// A commit compares neither version nor lease.
        SkipVersion = "skip-version-check",
        /// Redeeming does not ask whether the resource is being torn down.
        ForgetRevocation = "forget-token-revocation",
        /// An event is written twice.
        TellTwice = "emit-twice",
        /// An event is not written.
        TellNothing = "drop-event",
        /// The crossing into `Ready` emits no event.
        TellNotReady = "drop-ready-event",
        /// An event gets its number before its commit, so that a reader may have passed it.
        NumberEarly = "number-event-early",
        /// The XR is created without its owner.
        DropAnchor = "drop-anchor",
        /// Tombstones are not reconciled.
        DropTombstone = "drop-tombstone",
        /// The ProviderConfig is deleted although it has users.
        ConfigFirst = "delete-provider-config-first",
        /// Users are never counted down.
        ConfigNeverCounted = "forget-provider-config-count",
        /// Composed resources are taken for gone once the XR is.
        TrustForeground = "trust-foreground",
        /// The 404 of a rebuilt cluster is believed.
        TrustRebuilt = "trust-rebuilt-cluster",
        /// A page that is older than the snapshot is believed.
        TrustLagging = "trust-lagging-read",
        /// A wake-up during a step is lost.
        LoseWakeUp = "lose-wake-up",
        /// Labels are not asked for: whatever has our name is ours.
        ForeignIsOurs = "foreign-is-ours",
        /// Deletion matches by name alone.
        DeleteWithoutUid = "delete-without-uid",
        /// An apply onto a seen object matches by name alone.
        ApplyWithoutUid = "apply-without-uid",
        /// Absence counts at once, although a driver's last request may still arrive.
        SkipInFlightGrace = "skip-in-flight-grace",
        /// The XR is deleted before what it composed is in the ledger.
        SkipRecording = "skip-recording-composed",
        /// A lost XR is made again under the same token, with the old node's registration.
        ReuseGeneration = "reuse-generation",
        /// A new generation begins while the old one still exists.
        SkipShowingOut = "skip-showing-out",
        /// A transient `Ready=False` moves the resource out of `Ready`.
        FlapReady = "flap-ready",
        /// A failed resource recovers by itself.
        ForgetFailure = "failed-not-sticky",
        /// A commit writes the row as it was before deletion was requested.
        LoseIntent = "lose-intent",
        /// A lease is given while another one runs.
        DoubleLease = "double-lease",
        /// Too much that vanished at once is believed.
        IgnoreMassDeletionGuard = "ignore-mass-deletion-guard",
        /// Another's guard is not honoured.
        IgnoreGuard = "ignore-guard",
        /// A token is issued to a resource that is being torn down.
        IssueUnasked = "issue-to-leaving",
        /// The anchor stays behind.
        KeepAnchor = "keep-anchor",
        /// Enrolling is skipped.
        SkipEnrolling = "skip-enrolling",
        /// Our own guard is never released.
        KeepGuard = "keep-own-guard",
        /// No token is ever issued.
        NoToken = "never-issue-token",
        /// Something whose kind was removed is taken for gone.
        KindRemovedIsGone = "kind-removed-is-gone",
        /// A new generation does not record the names it will use.
        ForgetNames = "forget-intended-names",
        /// An incomplete snapshot is waited on without a timer.
        WaitOnIncomplete = "wait-on-incomplete",
    }
}

impl Breakage {
    /// Around the World: bends what was brought back, before it is judged.
    pub fn bend_snapshot(self, snapshot: &mut Snapshot) {
        if self == Self::ErrorIsAbsent {
            snapshot.xr = Ok(snapshot.xr.clone().unwrap_or(None));
            snapshot.anchors = Ok(snapshot.anchors.clone().unwrap_or_default());
            for it in snapshot.composed.iter_mut().filter(|it| it.reading.is_err()) {
                it.reading = Ok(ComposedState::Absent);
            }
            snapshot.composed_listed = Ok(());
        }
        if self == Self::NodeUnknownIsGone && snapshot.peers.is_err() {
            snapshot.peers = Ok(BTreeMap::new());
        }
        if self == Self::TrustRebuilt {
            snapshot.authority = Authority::Pinned;
        }
        if self == Self::IgnoreMassDeletionGuard {
            snapshot.guard_tripped = false;
        }
        if self == Self::KindRemovedIsGone {
            let removed = snapshot
                .composed
                .iter_mut()
                .filter(|it| it.reading == Ok(ComposedState::KindRemoved));
            for it in removed {
                it.reading = Ok(ComposedState::Absent);
            }
        }
        let guard = snapshot.protection;
        if self == Self::IgnoreGuard && guard == Ok(Guard::Another)
            || self == Self::KeepGuard && guard == Ok(Guard::Ours)
        {
            snapshot.protection = Ok(Guard::None);
        }
    }

    /// Around the World: bends what was judged, before it is decided upon.
    pub fn bend_seen(self, record: &Record<Resource>, seen: &mut Observed) {
        let facts = &mut seen.facts;
        let leaving = record.state.is_tearing_down();
        let exists = matches!(facts.xr, Xr::Converging | Xr::Ready | Xr::Drifted | Xr::Failed);
        if self == Self::SwapTeardown && leaving && exists {
            facts.node = Node::None;
        }
        if self == Self::TrustForeground && leaving && facts.xr == Xr::Absent {
            facts.composed = Composed::None;
            for it in seen.sightings.iter_mut().filter(|it| it.name.kind.starts_with("parts.")) {
                it.answer = Answer::Absent { settled: true };
            }
        }
        if self == Self::SkipRecording && facts.composed == Composed::Unrecorded {
            facts.composed = Composed::Present;
            seen.sightings.retain(|it| !it.name.kind.starts_with("parts."));
        }
        if self == Self::KeepAnchor && leaving {
            facts.anchor = Anchor::Absent;
        }
        if self == Self::SkipEnrolling && facts.node == Node::None && !leaving && exists {
            facts.node = Node::Live;
        }
        if self == Self::NoToken && facts.token == Token::None {
            facts.token = Token::Issued;
        }
        if self == Self::TrustRebuilt && facts.visibility == Visibility::ClusterReplaced {
            facts.visibility = Visibility::Complete;
        }
        if self == Self::ReuseGeneration && facts.xr == Xr::Replaced {
            facts.xr = Xr::Ready;
        }
        if self == Self::ForeignIsOurs {
            take_for_ours(seen);
        }
    }

    /// Around `decide`: bends the row that is decided upon.
    pub fn bend_record(self, record: &Record<Resource>, seen: &Observed) -> Record<Resource> {
        let fields = record.state.fields();
        let failed = fields.phase == Phase::Failed && fields.deletion_requested_at.is_none();
        let flaps = fields.phase == Phase::Ready && seen.facts.xr == Xr::Converging;
        let lost = fields.generation_state == GenerationState::Live && seen.facts.xr == Xr::Absent;
        let mut bent = fields.clone();
        if self == Self::FlapReady && flaps || self == Self::ForgetFailure && failed {
            bent.phase = Phase::Provisioning;
        }
        if self == Self::ReuseGeneration && lost {
            bent.generation_state = GenerationState::Fresh;
        }
        if self == Self::SkipInFlightGrace {
            bent.grace_until = None;
        }
        rebuilt(record, bent)
    }

    /// Around `decide`: bends what was decided.
    pub fn bend_decision(self, decision: &mut Decision<Broker>, now: Timestamp) {
        let fields = decision.next.fields();
        let asked = fields.deletion_requested_at.is_some();
        if self == Self::SkipShowingOut
            && fields.generation_state == GenerationState::Leaving
            && !asked
        {
            let next = Fields {
                generation: fields.generation.next(),
                generation_state: GenerationState::Fresh,
                ..fields.clone()
            };
            if let Ok(next) = Resource::hydrate(next) {
                decision.rows.extend(next.intended("usher", now));
                decision.next = next;
                decision.effect = None;
            }
        }
        let generation = decision.next.generation();
        if self == Self::ForgetNames && generation > Generation::FIRST {
            let own = [Kind::Anchor.text(), Kind::Xr.text(), KIND_TOKEN.to_owned()];
            decision.rows.retain(|row| {
                row.state != NameState::Intended
                    || row.name.generation != generation
                    || !own.contains(&row.name.kind)
            });
        }
    }

    /// Around the Ledger: bends what is emitted.
    pub fn bend_event(self, event: Option<Event>) -> Option<Event> {
        let drops =
            self == Self::TellNothing || self == Self::TellNotReady && event == Some(Event::Ready);
        event.filter(|_| !drops)
    }

    /// Around the Ledger: bends the side writes.
    pub fn bend_side_writes(self, side_writes: &mut SideWrites) {
        side_writes.create_tombstone &= self != Self::DropTombstone;
        side_writes.release_provider_config &= self != Self::ConfigNeverCounted;
    }

    /// Around the Ledger: bends the row that is written.
    pub fn bend_next(self, next: &Resource) -> Resource {
        let fields = next.fields();
        if self != Self::LoseIntent || fields.phase != Phase::Deregistering {
            return next.clone();
        }
        let forgetful =
            Fields { deletion_requested_at: None, phase: Phase::Pending, ..fields.clone() };
        Resource::hydrate(forgetful).unwrap_or_else(|_| next.clone())
    }
}

fn take_for_ours(seen: &mut Observed) {
    for it in &mut seen.sightings {
        if let Answer::Present { ours, .. } = &mut it.answer {
            *ours = true;
        }
    }
    if seen.facts.xr == Xr::Foreign {
        seen.facts.xr = Xr::Converging;
    }
    if seen.facts.anchor == Anchor::Foreign {
        seen.facts.anchor = Anchor::Ours;
    }
}

fn rebuilt(record: &Record<Resource>, fields: Fields) -> Record<Resource> {
    let state = Resource::hydrate(fields).unwrap_or_else(|_| record.state.clone());
    Record { version: record.version, state, name_ledger: record.name_ledger.clone() }
}
