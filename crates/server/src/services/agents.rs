//! The API of agents: register, authenticate, send heartbeats, stream events and leave.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;
use usher_api::ports::{AgentFeed, Agents, Answer, Failure};
use usher_api::refusal::Refusal as Border;
use usher_api::views::{AgentMessage, Beat, BeatAnswer, Enrolled, Registration};
use usher_domain::object::id::PeerId;
use usher_domain::object::manifest::SecretText;
use usher_domain::peers::{DrainStep, Stage};
use usher_domain::tokens::{Outcome, Refusal, Request};
use usher_kernel::Trouble;
use usher_store::PeerStatus;
use usher_wire::http::{AgentEvent, Drain};
use uuid::Uuid;

use super::{Services, failure};
use crate::mesh::{Instructions, wake};
use usher_failpoint::Failpoint;

#[async_trait]
impl Agents for Services {
    async fn register(&self, registration: Registration) -> Answer<Enrolled> {
        let token = self.store.token(registration.text.id()).await.map_err(failure)?;
        if token.is_some_and(|it| it.resource != registration.resource) {
            return Err(Refusal::WrongVerifier.into());
        }
        let request = Request {
            text: registration.text,
            project: registration.project,
            nonce: registration.nonce,
            public_key: registration.public_key,
            peer: PeerId::from_uuid(Uuid::now_v7()),
        };
        Failpoint::BeforeRedeem.pass();
        let outcome = self.store.redeem(request).await.map_err(failure)?;
        Failpoint::AfterRedeem.pass();
        let node = match outcome {
            Outcome::Redeemed(consumption) => consumption.peer,
            Outcome::Replayed(peer) => peer,
            Outcome::Refused(refusal) => return Err(refusal.into()),
        };
        tracing::info!(%node, resource = %registration.resource, "node registered");
        // A node is watched from its registration on, although it may never call again. A node that
        // was deregistered meanwhile still needs its id in order to leave.
        match self.met(node).await {
            Ok(()) => self.heard(node, 0, &registration.agent_version).await?,
            Err(Failure::Refused(_)) => {}
            Err(why) => return Err(why),
        }
        let heartbeat = self.mesh().config().heartbeat.interval;
        Ok(Enrolled { node, secret: self.plane.key.node_secret(node), heartbeat })
    }

    async fn admit(&self, node: PeerId, secret: &SecretText) -> Answer<()> {
        if !self.plane.key.is_node_secret(node, secret) {
            return Err(Border::Unauthenticated.into());
        }
        match self.mesh().fresh_orders_of(node) {
            Some(Instructions { out: true, .. }) => Err(Border::KeyRevoked.into()),
            Some(_) => Ok(()),
            None => self.met(node).await,
        }
    }

    async fn heartbeat(&self, node: PeerId, beat: Beat) -> Answer<BeatAnswer> {
        let mut instructions = self.mesh().orders_of(node);
        if instructions.is_none() {
            self.met(node).await?;
            instructions = self.mesh().orders_of(node);
        }
        self.heard(node, beat.acknowledged, &beat.agent_version).await?;
        let Instructions { snapshot, leave_by, out: _ } = instructions.unwrap_or_default();
        Ok(BeatAnswer { snapshot, drain: leave_by.map(left) })
    }

    async fn stream(&self, node: PeerId, _: Option<String>) -> Answer<Box<dyn AgentFeed>> {
        self.met(node).await?;
        let orders = self.mesh().follow(node).ok_or(Border::KeyRevoked)?;
        let told = Instructions::default();
        Ok(Box::new(Stream { orders, told, stop: self.stop.clone() }))
    }

    async fn leave(&self, node: PeerId, in_flight: u64) -> Answer<()> {
        tracing::info!(%node, in_flight, "node left");
        self.mesh().hear_last(node);
        let Some(PeerStatus { peer, .. }) = self.store.peer(node).await.map_err(failure)? else {
            return Err(Border::KeyRevoked.into());
        };
        if !matches!(peer.stage, Stage::Cordoned { .. }) {
            return Ok(());
        }
        let now = self.store.now().await.map_err(failure)?;
        match self.plane.advance(&peer, DrainStep::RevokeKey, now).await {
            // Another process has advanced it.
            Ok(()) | Err(Trouble::Conflict) => Ok(()),
            Err(trouble) => Err(Failure::Unavailable { what: trouble.to_string() }),
        }
    }
}

impl Services {
    /// Loads the record of a node into the mesh; refuses a deregistered node.
    async fn met(&self, node: PeerId) -> Answer<()> {
        let Some(attended) = self.store.peer(node).await.map_err(failure)? else {
            return Err(Border::KeyRevoked.into());
        };
        let now = match attended.peer.stage {
            Stage::Registered => usher_kernel::Timestamp::ZERO,
            Stage::Cordoned { .. } => self.store.now().await.map_err(failure)?,
            Stage::Draining { .. } | Stage::Deregistered { .. } => {
                return Err(Border::KeyRevoked.into());
            }
        };
        self.mesh().meet(&attended, now);
        Ok(())
    }

    /// Notes a heartbeat of a loaded node and wakes waiting drains; writes that this server hears
    /// it, if another or none was recorded to.
    async fn heard(&self, node: PeerId, acknowledged: u64, agent_version: &str) -> Answer<()> {
        let outcome = self.mesh().hear(node, acknowledged, agent_version);
        wake(&self.store, outcome.woken).await.map_err(failure)?;
        if let Some(number) = outcome.claim {
            let was_lost = self.store.claim_peer(node, number).await.map_err(failure)?;
            self.mesh().claimed(node, number);
            if was_lost {
                tracing::info!(%node, "node recovered");
            }
        }
        Ok(())
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// The event stream of one node: it catches up with a state.
struct Stream {
    orders: watch::Receiver<Instructions>,
    told: Instructions,
    stop: watch::Receiver<bool>,
}

#[async_trait]
impl AgentFeed for Stream {
    async fn next(&mut self) -> Option<AgentMessage> {
        loop {
            let instructions = *self.orders.borrow_and_update();
            if instructions.out {
                return None;
            }
            if let (Some(until), None) = (instructions.leave_by, self.told.leave_by) {
                self.told.leave_by = instructions.leave_by;
                let grace_ms = u64::try_from(left(until).as_millis()).unwrap_or(u64::MAX);
                return Some(into_message(AgentEvent::Drain(Drain { grace_ms })));
            }
            if instructions.snapshot > self.told.snapshot {
                self.told.snapshot = instructions.snapshot;
                return Some(into_message(AgentEvent::Mesh { snapshot: instructions.snapshot }));
            }
            tokio::select! {
                _ = self.stop.wait_for(|it| *it) => return None,
                changed = self.orders.changed() => if changed.is_err() {
                    return None;
                },
            }
        }
    }
}

fn into_message(event: AgentEvent) -> AgentMessage {
    AgentMessage { id: None, event }
}
