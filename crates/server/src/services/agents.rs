//! The API of agents: register, authenticate, send heartbeats, stream events and leave.

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;
use usher_api::ports::{AgentFeed, Agents, Answer, Failure};
use usher_api::refusal::Refusal as Border;
use usher_api::views::{AgentMessage, Beat, BeatAnswer, Enrolled, Registration};
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::PeerId;
use usher_domain::object::key::{KeyState, ServerKey};
use usher_domain::object::manifest::SecretText;
use usher_domain::peers::{DrainStep, Stage};
use usher_domain::tokens::{Outcome, Refusal, Request};
use usher_kernel::Trouble;
use usher_store::{Error, PeerStatus};
use usher_wire::http::{AgentEvent, Drain};
use uuid::Uuid;

use super::{Services, failure};
use crate::mesh::{Instructions, wake};
use usher_failpoint::Failpoint;

#[async_trait]
impl Agents for Services {
    async fn register(&self, registration: Registration) -> Answer<Enrolled> {
        let token = self.store.token(registration.text.id()).await.map_err(failure)?;
        // An unknown token costs no transaction.
        if token.is_none_or(|it| it.resource != registration.resource) {
            return Err(Refusal::WrongVerifier.into());
        }
        let request = Request {
            text: registration.text,
            project: registration.project,
            nonce: registration.nonce,
            public_key: registration.public_key,
            peer: PeerId::from_uuid(Uuid::now_v7()),
        };
        self.issuing_key().await?;
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
        match self.ensure_loaded(node).await {
            Ok(()) => self.record_heartbeat(node, 0, &registration.agent_version).await?,
            Err(Failure::Refused(_)) => {}
            Err(why) => return Err(why),
        }
        let heartbeat = self.mesh().config().heartbeat.interval;
        let peer = self.store.peer(node).await.map_err(failure)?.ok_or(Border::KeyRevoked)?;
        let key = self.plane.keys.get(&peer.key_id).ok_or_else(|| lacking(&peer.key_id))?;
        Ok(Enrolled { node, secret: key.node_secret(node), heartbeat })
    }

    async fn admit(&self, node: PeerId, secret: &SecretText) -> Answer<()> {
        let keys = &self.plane.keys;
        let sent = match keys.key_of(node, secret) {
            Some(sent) => sent,
            None => self.newer_key_of(node, secret).await?,
        };
        let is_current = |it: &KeyId| keys.state(it) == Some(KeyState::Current);
        if is_current(&sent) && !keys.is_behind(node) {
            match self.mesh().fresh_instructions_of(node) {
                Some(Instructions { out: true, .. }) => return Err(Border::KeyRevoked.into()),
                Some(_) => return Ok(()),
                None => {}
            }
        }
        let asked = Instant::now();
        let found = self.store.node(node).await.map_err(failure)?;
        let (status, current) = found.ok_or(Border::KeyRevoked)?;
        if !is_current(&current) {
            // Another server has rotated the key.
            self.plane.refresh_keys().await.map_err(failure)?;
        }
        self.authenticated(node, &sent, (&status, current)).await?;
        self.load_node(&status, asked).await
    }

    async fn heartbeat(&self, node: PeerId, beat: Beat) -> Answer<BeatAnswer> {
        let mut instructions = self.mesh().instructions_of(node);
        if instructions.is_none() {
            self.ensure_loaded(node).await?;
            instructions = self.mesh().instructions_of(node);
        }
        self.record_heartbeat(node, beat.acknowledged, &beat.agent_version).await?;
        let Instructions { snapshot, leave_by, out: _ } = instructions.unwrap_or_default();
        let keys = &self.plane.keys;
        let current = keys.current().ok().filter(|_| keys.is_behind(node));
        let secret = current.map(|it| it.node_secret(node));
        Ok(BeatAnswer { snapshot, drain: leave_by.map(left), secret })
    }

    async fn stream(&self, node: PeerId, _: Option<String>) -> Answer<Box<dyn AgentFeed>> {
        self.ensure_loaded(node).await?;
        let instructions = self.mesh().follow(node).ok_or(Border::KeyRevoked)?;
        let sent = Instructions::default();
        Ok(Box::new(Stream { instructions, sent, stop: self.stop.clone() }))
    }

    async fn leave(&self, node: PeerId, in_flight: u64) -> Answer<()> {
        tracing::info!(%node, in_flight, "node left");
        self.mesh().record_leave(node);
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
    /// The key that new secrets are derived with.
    pub(super) async fn issuing_key(&self) -> Answer<ServerKey> {
        if self.plane.keys.missing().is_some() {
            self.plane.refresh_keys().await.map_err(failure)?;
        }
        self.plane.keys.current().map_err(|missing| lacking(&missing))
    }

    /// The key of a secret that no known key derived: another server may have rotated, or a missing
    /// key is in the file again. The secret is wrong only if no key is missing.
    async fn newer_key_of(&self, node: PeerId, secret: &SecretText) -> Answer<KeyId> {
        let keys = &self.plane.keys;
        let _permit = keys.guess().ok_or_else(|| Failure::Unavailable {
            what: "the check of an unknown node secret".to_owned(),
        })?;
        self.plane.refresh_keys().await.map_err(failure)?;
        keys.key_of(node, secret).ok_or_else(|| {
            keys.missing().map_or_else(|| Border::Unauthenticated.into(), |it| lacking(&it))
        })
    }

    /// Accepts the secret of the recorded key or of the current one. Once a node called with the
    /// latter, it is recorded and the other one is refused. A key that the database does not know
    /// was rotated to before the database was restored.
    async fn authenticated(
        &self,
        node: PeerId,
        sent: &KeyId,
        (status, current): (&PeerStatus, KeyId),
    ) -> Answer<()> {
        let keys = &self.plane.keys;
        if *sent != status.key_id && *sent != current && keys.state(sent).is_some() {
            return Err(Border::Unauthenticated.into());
        }
        keys.note_behind(node, *sent != current);
        if *sent == current && status.key_id != current {
            match self.store.move_node_to_key(node, current).await {
                // It was rotated again: the row is written with the next call.
                Ok(()) | Err(Error::Conflict) => {}
                Err(error) => return Err(failure(error)),
            }
        }
        Ok(())
    }

    /// Loads the record of a node into the mesh; refuses a deregistered node.
    async fn ensure_loaded(&self, node: PeerId) -> Answer<()> {
        let asked = Instant::now();
        let status = self.store.peer(node).await.map_err(failure)?;
        self.load_node(&status.ok_or(Border::KeyRevoked)?, asked).await
    }

    /// Loads a record that was asked for at this time.
    async fn load_node(&self, status: &PeerStatus, asked: Instant) -> Answer<()> {
        let now = match status.peer.stage {
            Stage::Registered => usher_kernel::Timestamp::ZERO,
            Stage::Cordoned { .. } => self.store.now().await.map_err(failure)?,
            Stage::Draining { .. } | Stage::Deregistered { .. } => {
                return Err(Border::KeyRevoked.into());
            }
        };
        self.mesh().load(status, (asked, now));
        Ok(())
    }

    /// Notes a heartbeat of a loaded node and wakes waiting drains; writes that this server hears
    /// it, if another or none was recorded to.
    async fn record_heartbeat(
        &self,
        node: PeerId,
        acknowledged: u64,
        agent_version: &str,
    ) -> Answer<()> {
        let outcome = self.mesh().record_heartbeat(node, acknowledged, agent_version);
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

/// The refusal of what needs a key that this process lacks.
pub(super) fn lacking(key: &KeyId) -> Failure {
    Border::KeyMissing { key: key.to_string() }.into()
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// The event stream of one node: it catches up with a state.
struct Stream {
    instructions: watch::Receiver<Instructions>,
    sent: Instructions,
    stop: watch::Receiver<bool>,
}

#[async_trait]
impl AgentFeed for Stream {
    async fn next(&mut self) -> Option<AgentMessage> {
        loop {
            let instructions = *self.instructions.borrow_and_update();
            if instructions.out {
                return None;
            }
            if let (Some(until), None) = (instructions.leave_by, self.sent.leave_by) {
                self.sent.leave_by = instructions.leave_by;
                let grace_ms = u64::try_from(left(until).as_millis()).unwrap_or(u64::MAX);
                return Some(into_message(AgentEvent::Drain(Drain { grace_ms })));
            }
            if instructions.snapshot > self.sent.snapshot {
                self.sent.snapshot = instructions.snapshot;
                return Some(into_message(AgentEvent::Mesh { snapshot: instructions.snapshot }));
            }
            tokio::select! {
                _ = self.stop.wait_for(|it| *it) => return None,
                changed = self.instructions.changed() => if changed.is_err() {
                    return None;
                },
            }
        }
    }
}

fn into_message(event: AgentEvent) -> AgentMessage {
    AgentMessage { id: None, event }
}
