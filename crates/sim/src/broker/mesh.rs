//! Enrolment and the mesh, run by the product's own rules for tokens and peers.

use std::time::Duration;

use usher_domain::broker::facts::GenerationState;
use usher_domain::broker::snapshot::{PeerState, TokenState};
use usher_domain::object::enrolment::{Nonce, PublicKey};
use usher_domain::object::id::{PeerId, ProjectId, TokenId};
use usher_domain::object::key::ServerKey;
use usher_domain::peers::{
    self, Cause, DrainStep, DrainTimeouts, Liveness, Others, Registration, Stage, Survivor,
};
use usher_domain::tokens::{
    Consumption, Issue, Lifetime, Outcome, Refusal, Request, ResourceView, Token,
};
use usher_kernel::{Generation, Timestamp, Trouble};
use uuid::Uuid;

use crate::broker::breakage::Breakage;
use crate::broker::check::Checker;
use crate::broker::execute;
use crate::broker::fault::Fault;
use crate::broker::outside::Agent;
use crate::broker::state::State;
use crate::broker::store::{Item, Store};
use crate::clock::Tick;
use crate::contract::port::No;
use crate::sim_world::SimWorld as _;

/// How long a simulated drain waits.
const DRAIN_TIMEOUTS: DrainTimeouts =
    DrainTimeouts { acknowledgements: Duration::from_millis(8), grace: Duration::from_millis(15) };

/// The key every simulated agent brings; machines are distinguished by their nonces.
const PUBLIC_KEY: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

/// A token's row.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// The resource it belongs to.
    pub resource: usize,
    /// The token.
    pub token: Token,
}

/// A peer's row.
#[derive(Clone, Debug)]
pub struct PeerRow {
    /// The peer.
    pub peer: peers::Peer,
    /// The resource it belongs to.
    pub resource: usize,
    /// The machine it runs on, as the simulation knows it.
    pub machine: u64,
    /// Until when no heartbeat is received.
    pub lost_until: Tick,
    /// Whether a heartbeat was received at the last tick.
    pub reading: bool,
    /// Whether it was asked to deregister.
    pub leaving: bool,
    /// The newest snapshot of the mesh it acknowledged.
    pub acknowledged: u64,
}

impl PeerRow {
    /// Its generation.
    pub const fn generation(&self) -> Generation {
        self.peer.registration.generation
    }

    /// Whether it is still in the mesh.
    pub const fn is_registered(&self) -> bool {
        !self.peer.is_gone()
    }
}

/// The key every simulated token is derived with.
pub fn server_key() -> Option<ServerKey> {
    ServerKey::new([7; 32]).ok()
}

impl State {
    fn project(&self, index: usize) -> ProjectId {
        self.store.resources[index].record.state.fields().project
    }

    /// How a token is, judged together with its resource.
    pub fn token_state(&self, row: &TokenRow) -> TokenState {
        let now = self.now();
        if row.token.consumed.is_some() {
            TokenState::Consumed
        } else if row.token.is_redeemable(self.store.view(row.resource), now) {
            TokenState::Redeemable
        } else if row.token.is_expired(now) {
            TokenState::Expired
        } else {
            TokenState::Revoked
        }
    }

    /// The state of a peer; a peer whose machine is gone sends no heartbeat any more.
    pub fn peer_state(&self, row: &PeerRow) -> PeerState {
        if row.peer.is_gone() {
            PeerState::Deregistered
        } else if self.base.tick < row.lost_until || self.outside.by_uid(row.machine).is_none() {
            PeerState::Lost
        } else {
            PeerState::Registered
        }
    }

    /// Issuing locks the resource row: a resource that is being torn down gets no token.
    pub(crate) fn issue(
        &mut self,
        request: &execute::Request,
        generation: Generation,
    ) -> Result<(), Trouble> {
        let execute::Sender::Resource(resource) = request.sender else {
            return Ok(());
        };
        let admits = self.store.resources[resource].record.state.admits(generation);
        let now = self.now();
        self.store.issue(resource, generation, request.breakage, now).map_err(No::trouble)?;
        let live = self.live_tokens(resource);
        if live > 1 || !admits {
            let what =
                format!("resource {resource} has {live} live tokens, should have one: {admits}");
            self.wrong(Checker::OneLiveToken, what);
        }
        self.say(|_| format!("issued: token of resource {resource} {generation}"));
        Ok(())
    }

    fn live_tokens(&self, resource: usize) -> usize {
        let mine = self.store.tokens.values().filter(|it| it.resource == resource);
        mine.filter(|it| it.token.consumed.is_none() && it.token.revoked_at.is_none()).count()
    }

    pub(crate) fn enrol_agents(&mut self, breakage: Option<Breakage>) {
        let tick = self.base.tick;
        for i in 0..self.outside.agents.len() {
            let agent = self.outside.agents[i].clone();
            let alive = self.outside.by_uid(agent.machine).is_some();
            // A request of a machine that is gone may still be under way.
            let speaks = alive || (agent.tries_at == Some(tick) && self.in_fault_phase());
            if agent.enrolled || !speaks || agent.tries_at.is_none_or(|at| tick < at) {
                continue;
            }
            self.outside.agents[i].tries_at = Some(tick + 15);
            let enrolled = self.redeem(&agent, breakage);
            self.outside.agents[i].enrolled = enrolled;
        }
    }

    /// Redeeming locks the resource row, then the token row. `true` if the agent got its answer.
    fn redeem(&mut self, agent: &Agent, breakage: Option<Breakage>) -> bool {
        let Some(asked) = self.request(agent) else {
            return false;
        };
        let resource = &self.store.resources[agent.resource].record.state;
        let admits = resource.admits(agent.generation);
        if agent.generation < resource.generation() {
            self.met(Fault::OldAgent);
        }
        let now = self.now();
        match self.store.redeem(&asked, agent.machine, breakage, now) {
            Outcome::Refused(_) => return false,
            Outcome::Replayed(_) => return true,
            Outcome::Redeemed(_) => {}
        }
        if !admits {
            let (generation, resource) = (agent.generation, agent.resource);
            let what = format!("a node enrolled into {generation} of resource {resource}");
            self.wrong(Checker::NoLateEnrolment, what);
        }
        let (generation, resource) = (agent.generation, agent.resource);
        self.say(|_| format!("enrolled: node of resource {resource} {generation}"));
        !self.injects(Fault::EnrolmentAnswerLost, 150)
    }

    fn request(&self, agent: &Agent) -> Option<Request> {
        let text = server_key()?.derive(agent.token, agent.generation);
        let nonce: Nonce = format!("nonce-of-machine-{:08}", agent.machine).parse().ok()?;
        let public_key: PublicKey = PUBLIC_KEY.parse().ok()?;
        let mut bytes = [0x22; 16];
        bytes[8..].copy_from_slice(&agent.machine.to_be_bytes());
        let peer = PeerId::from_uuid(Uuid::from_bytes(bytes));
        Some(Request { text, project: self.project(agent.resource), nonce, public_key, peer })
    }

    /// Begins to show the node that redeemed this token out; asking again changes nothing.
    pub(crate) fn drain(&mut self, token: TokenId) {
        let peer =
            self.store.peers.iter_mut().find(|it| {
                it.peer.registration.token == token && it.is_registered() && !it.leaving
            });
        if let Some(peer) = peer {
            peer.leaving = true;
            let (resource, generation) = (peer.resource, peer.generation());
            self.say(|_| format!("drains: node of resource {resource} {generation}"));
        }
    }

    /// One tick of every drain: cordon, revoke the key, acknowledgements or timeout, out.
    pub(crate) fn finish_drains(&mut self) {
        let now = self.now();
        for i in 0..self.store.peers.len() {
            if self.base.rng.percent(25) {
                self.store.peers[i].acknowledged = self.store.snapshot;
            }
            let row = self.store.peers[i].clone();
            // A node that falls silent, or is seen again, wakes its resource: once.
            let reading = self.peer_state(&row) == PeerState::Registered;
            if row.is_registered() && reading != row.reading {
                self.store.peers[i].reading = reading;
                self.store.wake(Item::Resource(row.resource), now);
            }
            if row.leaving && row.is_registered() {
                self.drain_further(i);
            }
        }
    }

    fn drain_further(&mut self, i: usize) {
        let now = self.now();
        let row = self.store.peers[i].clone();
        let survivors: Vec<Survivor> = self
            .store
            .peers
            .iter()
            .filter(|it| it.is_registered() && it.peer.id != row.peer.id)
            .map(|it| Survivor {
                id: it.peer.id,
                acknowledged: it.acknowledged,
                liveness: match self.peer_state(it) {
                    PeerState::Registered => Liveness::Live,
                    PeerState::Lost | PeerState::Deregistered => Liveness::Lost,
                },
            })
            .collect();
        let snapshot = match row.peer.stage {
            Stage::Draining { .. } => Some(self.store.snapshot),
            Stage::Registered | Stage::Cordoned { .. } | Stage::Deregistered { .. } => None,
        };
        let others = Others { snapshot, survivors: &survivors, left: true };
        let step = row.peer.drain(&others, DRAIN_TIMEOUTS, now);
        if step == DrainStep::RevokeKey {
            self.store.snapshot += 1;
        }
        let after = row.peer.advance(step, now);
        self.store.move_peer(i, &after, now);
    }

    /// Another client takes the node out of the mesh at once.
    pub(crate) fn remove_node(&mut self, i: usize) {
        let now = self.now();
        let mut peer = self.store.peers[i].peer.clone();
        for step in [DrainStep::Cordon, DrainStep::RevokeKey, DrainStep::Deregister(Cause::Forced)]
        {
            peer = peer.advance(step, now);
        }
        self.store.move_peer(i, &peer, now);
    }
}

impl Store {
    /// What redeeming asks of a resource, in the transaction that locks its row.
    fn view(&self, index: usize) -> ResourceView {
        let resource = &self.resources[index].record.state;
        ResourceView {
            generation: resource.generation(),
            deletion_requested: resource.deletion_requested_at().is_some(),
            replacing: resource.generation_state() == GenerationState::Leaving,
        }
    }

    /// Issues the token of a generation, unless its resource is torn down; asking again changes
    /// nothing.
    pub(crate) fn issue(
        &mut self,
        index: usize,
        generation: Generation,
        breakage: Option<Breakage>,
        now: Timestamp,
    ) -> Result<(), No> {
        let state = &self.resources[index].record.state;
        let (resource, project) = (state.id(), state.fields().project);
        if !state.admits(generation) && breakage != Some(Breakage::IssueUnasked) {
            return Err(No::Leaving);
        }
        if self.behind.is_some() {
            return self.issue_behind(resource, generation);
        }
        let Some(key) = server_key() else { return Err(No::Leaving) };
        let lifetime = Lifetime::default();
        let token = Token::issue(&key, Issue { resource, project, generation, lifetime }, now);
        self.tokens.entry(token.id).or_insert(TokenRow { resource: index, token });
        Ok(())
    }

    /// Redeems a token and registers the peer it becomes, on this machine, and wakes its resource.
    pub(crate) fn redeem(
        &mut self,
        request: &Request,
        machine: u64,
        breakage: Option<Breakage>,
        now: Timestamp,
    ) -> Outcome {
        let Some(row) = self.tokens.get(&request.text.id()).cloned() else {
            return Outcome::Refused(Refusal::WrongVerifier);
        };
        let (mut token, mut view) = (row.token, self.view(row.resource));
        if breakage == Some(Breakage::ForgetRevocation) {
            token.revoked_at = None;
            let generation = token.generation;
            view = ResourceView { generation, deletion_requested: false, replacing: false };
        }
        let outcome = match self.behind {
            Some(_) => self.redeem_behind(request),
            None => token.redeem(request, view, now),
        };
        let Outcome::Redeemed(consumption) = &outcome else { return outcome };
        self.register(row.resource, &token, (consumption, machine));
        token.consumed = Some(consumption.clone());
        if self.behind.is_none() {
            self.tokens.insert(token.id, TokenRow { resource: row.resource, token });
            self.wake(Item::Resource(row.resource), now);
        }
        outcome
    }

    fn register(&mut self, index: usize, token: &Token, (by, machine): (&Consumption, u64)) {
        let registration = Registration {
            token: token.id,
            resource: token.resource,
            generation: token.generation,
            project: token.project,
            nonce: by.nonce.clone(),
            public_key: by.public_key.clone(),
        };
        let existing = self.peers.iter().find(|it| it.peer.registration.token == token.id);
        let existing = existing.map(|it| it.peer.clone());
        let registered = peers::register(existing.as_ref(), by.peer, &registration, by.at);
        let Ok(registered) = registered else { return };
        self.peers.push(PeerRow {
            peer: registered.peer,
            resource: index,
            machine,
            lost_until: -1,
            reading: true,
            leaving: false,
            acknowledged: self.snapshot,
        });
    }

    /// Writes the drain stage of a peer, and wakes its resource.
    pub(crate) fn move_peer(&mut self, i: usize, after: &peers::Peer, now: Timestamp) {
        let row = &mut self.peers[i];
        let before = std::mem::replace(&mut row.peer, after.clone());
        if before == *after {
            return;
        }
        let resource = row.resource;
        if self.behind.is_some() {
            self.move_peer_behind(&before, after);
        } else {
            self.wake(Item::Resource(resource), now);
        }
    }
}
