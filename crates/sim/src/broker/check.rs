//! What must never happen, by name.

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::{Event, EventType};
use usher_domain::broker::facts::GenerationState;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config;
use usher_domain::broker::snapshot::TokenState;
use usher_domain::object::id::TokenId;

use usher_kernel::{Record, Row};

use crate::broker::execute::Sender;
use crate::broker::outside::{Kind, Object, number, uid};
use crate::broker::state::State;
use crate::clock::{LEASE, Tick};
use crate::sim_world::{EveryWorld, SimWorld as _};
use crate::words::words;

words! {
    /// A rule that the world is held to.
    Checker {
        /// The substrate is never deleted while its node is registered.
        // Requirement: T-2, T-3, T-25, S-3
        NodeFirst = "node-first",
        /// Once the world is idle, no peer lacks its substrate and nothing outside lacks its row.
        // Requirement: K-2, W-10, B-15, T-13, T-15, T-33, P-2, P-13, S-3
        NoOrphans = "no-orphans",
        /// No node enrols after deletion was accepted.
        // Requirement: E-8, S-3
        NoLateEnrolment = "no-late-enrolment",
        /// `Deleted` is emitted once, and only when everything is gone.
        // Requirement: L-11, O-5, T-8, S-3
        DeletedMeansGone = "deleted-means-gone",
        /// A foreign object is never touched.
        // Requirement: L-7, T-23, S-3
        ForeignUntouched = "foreign-untouched",
        /// Every crossing has one event, in the order of its versions.
        // Requirement: V-3, V-4, V-6, V-8, S-3
        OneEventPerCrossing = "one-event-per-crossing",
        /// No token is ever live twice.
        // Requirement: E-9, E-11, S-3
        OneLiveToken = "one-live-token",
        /// Every outside name is in the ledger before it is used.
        // Requirement: L-5, L-23
        NameBeforeUse = "name-before-use",
        /// A ProviderConfig is deleted after everything that refers to it.
        // Requirement: P-3
        ConfigLast = "config-last",
        /// Intent to delete is never lost or moved.
        // Requirement: K-9, A-13
        IntentWins = "intent-wins",
        /// `Failed` and `Deleted` are sticky, and `Ready` is left only for a reason.
        // Requirement: O-16, B-12, B-13, T-1, V-6
        Sticky = "sticky",
        /// `Ready` is emitted only for a node that enrolled from the present substrate.
        // Requirement: B-9, B-10
        ReadyMeansEnrolled = "ready-means-enrolled",
        /// Nothing that is guarded is deleted.
        // Requirement: T-5
        GuardHonoured = "guard-honoured",
        /// Nothing is created after `Deleted` by a driver that is within its lease.
        // Requirement: L-14, T-10
        InFlightGrace = "in-flight-grace",
        /// What an XR composed is in the ledger before the XR is deleted.
        // Requirement: T-6
        ComposedRecorded = "composed-recorded",
        /// No generation is given up while too much vanished at once.
        // Requirement: O-7
        GuardHolds = "mass-deletion-guard-holds",
        /// An apply onto a seen object never creates one.
        // Requirement: B-22
        ApplyNeverCreates = "apply-never-creates",
    }
}

/// What a write may cross, as it was before the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    phase: Phase,
    asked: bool,
}

impl From<&Resource> for Crossing {
    fn from(resource: &Resource) -> Self {
        let asked = resource.deletion_requested_at().is_some();
        Self { phase: resource.phase(), asked }
    }
}

impl Crossing {
    /// The event that the crossing to `after` owes.
    fn owes(self, after: Self) -> Option<EventType> {
        let crossed = self.phase != after.phase;
        match after.phase {
            Phase::Ready => crossed.then_some(EventType::Ready),
            Phase::Failed => crossed.then_some(EventType::Failed),
            Phase::Deleted => crossed.then_some(EventType::Deleted),
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Deregistering
            | Phase::Deprovisioning => (after.asked && !self.asked).then_some(EventType::Deleting),
        }
    }
}

impl State {
    /// What every write of a resource must emit: its crossing at its version, and nothing else.
    pub(crate) fn check_transition_event(&mut self, index: usize, before: Crossing) {
        let record = &self.store.resources[index].record;
        let owed = before.owes(Crossing::from(&record.state));
        let version = record.version;
        let rows = self.store.events.iter().rev().take(4);
        let emitted: Vec<EventType> = rows
            .filter(|it| it.resource == index && it.version == version)
            .map(|it| it.event.event_type())
            .collect();
        if emitted != owed.into_iter().collect::<Vec<_>>() {
            let word = |it: &EventType| it.as_str().to_owned();
            let owed = owed.as_ref().map_or_else(|| "nothing".to_owned(), word);
            let emitted: Vec<String> = emitted.iter().map(word).collect();
            let what = format!("resource {index} owes {owed} and emits [{}]", emitted.join(", "));
            self.wrong(Checker::OneEventPerCrossing, what);
        }
    }

    /// No generation is given up while the guard is tripped, nor while the only object that ever
    /// existed under its XR's name is present and its deletion was not requested.
    pub(crate) fn check_given_up(
        &mut self,
        index: usize,
        before: &Record<Resource>,
        behind_guard: bool,
    ) {
        let next = &self.store.resources[index].record.state;
        if next.generation_state() != GenerationState::Leaving
            || before.state.generation_state() == GenerationState::Leaving
        {
            return;
        }
        if behind_guard {
            let what = format!("resource {index} gave its generation up while the guard holds");
            self.wrong(Checker::GuardHolds, what);
        }
        let name = before.state.xr_name(before.state.generation());
        let mut uids = before.name_ledger.rows().iter().filter(|it| it.name == name);
        let only = uids.next().and_then(|it| it.uid.clone()).filter(|_| uids.next().is_none());
        let object = only.and_then(|it| self.outside.by_uid(number(&it)));
        if object.is_some_and(|it| !it.leaving) {
            let what = format!("resource {index} gave its generation up although its XR exists");
            self.wrong(Checker::GuardHolds, what);
        }
    }

    /// What every commit of a driver must respect.
    pub(crate) fn check_commit(&mut self, index: usize, before: Crossing, observed_at: Tick) {
        let row = &self.store.resources[index];
        let phase = row.record.state.phase();
        let Crossing { phase: was, asked: was_asked } = before;
        let asked = row.record.state.deletion_requested_at().is_some();
        if was_asked && !asked {
            self.wrong(Checker::IntentWins, format!("resource {index} forgot its deletion"));
        }
        let sticky = was == Phase::Deleted && phase != Phase::Deleted
            || was == Phase::Failed && !asked && phase != Phase::Failed
            || was_asked && !phase.is_leaving();
        if sticky {
            self.wrong(Checker::Sticky, format!("resource {index} went from {was} to {phase}"));
        }
        if phase == Phase::Deleted && was != Phase::Deleted {
            self.check_deleted(index, observed_at);
        }
        if phase == Phase::Ready && was != Phase::Ready {
            self.check_ready(index);
        }
    }

    fn check_deleted(&mut self, index: usize, observed_at: Tick) {
        let row = &self.store.resources[index];
        let open = row.record.name_ledger.rows().iter().find(|it| !it.state.is_settled());
        let open = open.map(|it| format!("{} {}", it.state.as_str(), it.name.name));
        let maker = Some(Sender::Resource(index));
        let mut alive = self.outside.objects.iter();
        let alive = alive.find(|it| it.created < observed_at && it.made_by == maker);
        let alive = alive.map(|it| format!("{:?} {} exists", it.kind, it.name));
        let peer = self.store.peers.iter().find(|it| it.resource == index && it.is_registered());
        let peer = peer.map(|_| "its node is registered".to_owned());
        if let Some(what) = open.or(alive).or(peer) {
            self.wrong(Checker::DeletedMeansGone, format!("resource {index} is not gone: {what}"));
        }
    }

    fn check_ready(&mut self, index: usize) {
        let state = &self.store.resources[index].record.state;
        if state.pinned().role == MeshRole::Standalone {
            return;
        }
        let generation = state.generation();
        let peer = self
            .store
            .peers
            .iter()
            .find(|it| it.resource == index && it.generation() == generation);
        let xr = self.outside.find(Kind::Xr, &state.pinned().xr_name);
        let name_ledger = self.store.name_ledger(index);
        let enrolled = peer.is_some_and(|peer| {
            let owner = self.outside.by_uid(peer.machine).and_then(|machine| machine.owner);
            // A machine that vanished and an XR that was replaced since the snapshot are the next
            // step's business, and a node cannot be bound to a substrate that no snapshot ever saw.
            owner.is_none_or(|owner| {
                let on_record = name_ledger.rows().iter().any(|row| row.uid == Some(uid(owner)));
                let since = |xr: &Object| xr.created + LEASE > self.base.tick;
                !on_record || xr.is_none_or(|xr| xr.uid == owner || since(xr))
            })
        });
        if !enrolled {
            let what = format!("resource {index} is reported Ready without its node");
            self.wrong(Checker::ReadyMeansEnrolled, what);
        }
    }

    /// What every event must respect.
    pub(crate) fn check_events(&mut self) {
        for index in 0..self.store.resources.len() {
            let rows: Vec<_> =
                self.store.events.iter().filter(|it| it.resource == index).cloned().collect();
            let ordered = rows.windows(2).all(|pair| pair[0].version < pair[1].version);
            if !ordered {
                let what = format!("resource {index} emitted two events for one version");
                self.wrong(Checker::OneEventPerCrossing, what);
            }
            for event_type in [EventType::Requested, EventType::Deleting, EventType::Deleted] {
                if self.store.event_count(index, event_type) > 1 {
                    let what = format!("resource {index} emitted {event_type} twice");
                    self.wrong(Checker::OneEventPerCrossing, what);
                }
            }
            let mut ready: Vec<_> =
                rows.iter().filter(|it| it.event == Event::Ready).map(|it| it.generation).collect();
            let count = ready.len();
            ready.dedup();
            if ready.len() != count {
                let what = format!("resource {index} left Ready without losing its substrate");
                self.wrong(Checker::Sticky, what);
            }
            let phase = self.store.resources[index].record.state.phase();
            let deleted = self.store.event_count(index, EventType::Deleted);
            if (phase == Phase::Deleted) != (deleted == 1) {
                let what = format!("resource {index} is {phase} with {deleted} such events");
                self.wrong(Checker::OneEventPerCrossing, what);
            }
        }
    }

    /// What must hold once the world is idle.
    pub(crate) fn check_at_rest(&mut self) {
        for index in 0..self.store.resources.len() {
            self.check_residue(index);
            self.check_end(index);
        }
        let config = self.store.config.record.state.clone();
        let exists = self.outside.objects.iter().any(|it| it.made_by == Some(Sender::Config));
        if config.users == 0 && (exists || config.phase != provider_config::Phase::Gone) {
            let what = format!("the ProviderConfig has no users and is {}", config.phase);
            self.wrong(Checker::NoOrphans, what);
        }
        let users =
            self.store.resources.iter().filter(|row| row.record.state.phase() != Phase::Deleted);
        if users.count() != usize::try_from(config.users).unwrap_or(usize::MAX) {
            let what = format!("the ProviderConfig counts {} users", config.users);
            self.wrong(Checker::NoOrphans, what);
        }
        if config.users > 0 && config.phase != provider_config::Phase::Ready {
            let what = format!("the ProviderConfig is used and {}", config.phase);
            self.wrong(EveryWorld::EndsAsWished, what);
        }
        self.check_events();
        self.check_reader();
    }

    fn check_residue(&mut self, index: usize) {
        let row = &self.store.resources[index];
        let deleted = row.record.state.phase() == Phase::Deleted && !self.was_abandoned(index);
        let mut what = None;
        for it in &self.outside.objects {
            if it.made_by != Some(Sender::Resource(index)) {
                continue;
            }
            let rows = row.record.name_ledger.rows();
            let is_row = |row: &Row| row.name.name == it.name && row.uid == Some(uid(it.uid));
            let named = rows.iter().any(is_row);
            if deleted {
                what = Some(format!("{:?} {} outlives resource {index}", it.kind, it.name));
            } else if !named && !self.was_abandoned(index) {
                what = Some(format!("{:?} {} of {index} has no row", it.kind, it.name));
            }
        }
        // A failed resource, and one whose node is lost, wait for a person and say so.
        let phase = row.record.state.phase();
        let generation = row.record.state.generation();
        let peers = self.store.peers.iter().filter(|it| it.resource == index && it.is_registered());
        for peer in peers {
            let reported = phase == Phase::Failed
                || matches!(phase, Phase::Ready | Phase::Enrolling)
                    && peer.generation() == generation;
            if phase == Phase::Deleted || (self.outside.by_uid(peer.machine).is_none() && !reported)
            {
                what = Some(format!("the peer of resource {index} has no substrate"));
            }
        }
        if let Some(what) = what {
            self.wrong(Checker::NoOrphans, what);
        }
    }

    fn check_end(&mut self, index: usize) {
        if let Some(what) = self.unfinished(index) {
            self.wrong(EveryWorld::EndsAsWished, format!("resource {index} {what}"));
        }
    }

    /// Why a resource has not ended as wished, if it has not.
    pub(crate) fn unfinished(&self, index: usize) -> Option<String> {
        let state = &self.store.resources[index].record.state;
        let phase = state.phase();
        if state.deletion_requested_at().is_some() {
            return (phase != Phase::Deleted).then(|| format!("should be gone and is {phase}"));
        }
        let xr = self.outside.find(Kind::Xr, &state.pinned().xr_name);
        let exists = xr.is_some_and(|it| {
            !it.leaving && it.owner.is_some_and(|uid| self.outside.by_uid(uid).is_some())
        });
        let generation = state.generation();
        match phase {
            Phase::Failed => None,
            Phase::Ready if exists => None,
            Phase::Enrolling if exists && !self.may_enrol(index, generation) => None,
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Ready
            | Phase::Deregistering
            | Phase::Deprovisioning
            | Phase::Deleted => Some(format!("is {phase}, its XR exists: {exists}")),
        }
    }

    /// Whether a token can still be redeemed, or is owed to an agent.
    pub(crate) fn is_redeemable(&self, token: TokenId) -> bool {
        let row = self.store.tokens.get(&token);
        row.is_none_or(|it| self.token_state(it) == TokenState::Redeemable)
    }

    /// Whether the node of this generation could still get the resource to `Ready`.
    fn may_enrol(&self, index: usize, generation: usher_kernel::Generation) -> bool {
        let peer = self
            .store
            .peers
            .iter()
            .find(|it| it.resource == index && it.generation() == generation);
        match peer {
            Some(peer) => peer.is_registered() && self.outside.by_uid(peer.machine).is_some(),
            None => self.outside.agents.iter().any(|it| {
                it.resource == index
                    && it.generation == generation
                    && it.tries_at.is_some()
                    && self.outside.by_uid(it.machine).is_some()
                    && self.is_redeemable(it.token)
            }),
        }
    }
}
