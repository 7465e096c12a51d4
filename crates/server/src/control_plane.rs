//! The control plane as worlds use it: the store, the mesh, the pins and the key.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::broker::render::tags;
use usher_domain::broker::snapshot::{Peer as PeerSnapshot, PeerState};
use usher_domain::broker::world::{ControlPlane, Identify, Known, Trust};
use usher_domain::labels;
use usher_domain::object::authority::{Authority, BoxFuture, WorldRecord};
use usher_domain::object::enrolment::{KeyId, TokenText};
use usher_domain::object::id::{PeerId, TokenId};
use usher_domain::object::key::{KeyState, ServerKey};
use usher_domain::object::name;
use usher_domain::peers::{DrainStep, Liveness, Others, Peer, Registration, Stage, Survivor};
use usher_domain::tokens::Lifetime;
use usher_kernel::{Generation, Timestamp, Trouble};
use usher_store::{Error, PeerStatus, ResourceContext, Store, TokenSummary};

use super::alarm::Alarms;
use super::guard::Guards;
use super::keyring::Keyring;
use super::mesh::Mesh;
use super::world_records::record;
use usher_failpoint::Failpoint;

/// The control plane over a store.
#[derive(Clone)]
pub struct SqlControlPlane {
    pub store: Arc<Store>,
    /// The keys that secrets are derived with.
    pub keys: Arc<Keyring>,
    /// The lifetime of tokens.
    pub lifetime: Lifetime,
    /// The pins and mass-deletion guards.
    pub guards: Arc<Guards>,
    pub mesh: Arc<Mesh>,
    pub alarms: Arc<Alarms>,
}

impl ControlPlane for SqlControlPlane {
    fn of_resource<'a>(
        &'a self,
        resource: &'a Resource,
        identify: Identify<'a>,
    ) -> BoxFuture<'a, Result<Known, Trouble>> {
        Box::pin(self.known(resource, identify))
    }

    fn of_config<'a>(
        &'a self,
        config: &'a ProviderConfig,
        identify: Identify<'a>,
    ) -> BoxFuture<'a, Result<Trust, Trouble>> {
        Box::pin(async move {
            let now = self.store.now().await.map_err(into_trouble)?;
            let world = self.store.world(&config.world).await.map_err(into_trouble)?.map(record);
            let authority = self.judged(&config.world, world.as_ref(), identify).await?;
            let guard_tripped = world.is_some_and(|it| it.tripped_at.is_some());
            Ok(Trust { now, authority, guard_tripped })
        })
    }

    fn vanished<'a>(
        &'a self,
        resource: &'a Resource,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<bool, Trouble>> {
        Box::pin(async move {
            let world = &resource.pinned().world;
            let known = self.store.world(world).await.map_err(into_trouble)?.map(record);
            self.guards.vanished(world, (resource.id(), now), known.as_ref()).await
        })
    }

    fn token<'a>(
        &'a self,
        resource: &'a Resource,
        generation: Generation,
    ) -> BoxFuture<'a, Result<TokenText, Trouble>> {
        Box::pin(async move {
            let id = name::token(resource.id(), generation);
            let token = self.store.token(id).await.map_err(into_trouble)?;
            let key = self.key_of(token.as_ref().map(|it| &it.key_id)).await?;
            Ok(key.derive(id, generation))
        })
    }

    fn issue<'a>(
        &'a self,
        resource: &'a Resource,
        _: TokenId,
        generation: Generation,
    ) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move {
            let issue = async || {
                let key = self.keys.current().map_err(lacking)?;
                let issued = self.store.issue(key, resource.id(), generation, self.lifetime).await;
                issued.map_err(into_trouble)
            };
            match issue().await {
                // Another server rotated the key, or this one lacked it.
                Err(Trouble::Conflict | Trouble::Unavailable { .. }) => {
                    self.refresh_keys().await.map_err(into_trouble)?;
                    issue().await
                }
                done => done,
            }
        })
    }

    fn deregister<'a>(
        &'a self,
        resource: &'a Resource,
        token: TokenId,
    ) -> BoxFuture<'a, Result<(), Trouble>> {
        Box::pin(async move {
            let project = resource.fields().project;
            let (now, mesh) = self.store.mesh(project).await.map_err(into_trouble)?;
            let leaver = mesh.iter().find(|it| it.peer.registration.token == token);
            match now.zip(leaver) {
                Some((now, leaver)) => self.drain(leaver, &mesh, now).await,
                None => Ok(()),
            }
        })
    }
}

impl SqlControlPlane {
    async fn known(&self, resource: &Resource, identify: Identify<'_>) -> Result<Known, Trouble> {
        let beside = self.store.resource_context(resource).await.map_err(into_trouble)?;
        let ResourceContext { now, config, world, tokens, peers, labels, definitions } = beside;
        let world = world.map(record);
        let authority = self.judged(&resource.pinned().world, world.as_ref(), identify).await?;
        let guard_tripped = world.is_some_and(|it| it.tripped_at.is_some());
        let out = labels::propagatable(&labels, &definitions);
        let out = out.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let token = |it: TokenSummary| (it.generation, it.state);
        let peer = |it: PeerStatus| (it.peer.registration.generation, peer_snapshot(&it));
        Ok(Known {
            trust: Trust { now, authority, guard_tripped },
            config_ready: config.is_ready(),
            tokens: tokens.into_iter().map(token).collect(),
            peers: Ok(peers.into_iter().map(peer).collect()),
            tags: tags::tags(out, config.provider).tags,
        })
    }

    /// Reads the keys again. While one is missing, no node counts as silent.
    pub async fn refresh_keys(&self) -> Result<(), Error> {
        self.keys.refresh().await?;
        self.mesh.set_refusing(self.keys.missing().is_some());
        Ok(())
    }

    /// The key that a token was derived with. A retired one may be gone from the file: its tokens
    /// cannot be redeemed, so that any text will do.
    async fn key_of(&self, id: Option<&KeyId>) -> Result<ServerKey, Trouble> {
        let Some(id) = id else { return self.keys.current().map_err(lacking) };
        if self.keys.get(id).is_none() {
            self.refresh_keys().await.map_err(into_trouble)?;
        }
        match self.keys.get(id) {
            Some(key) => Ok(key),
            None if self.keys.state(id) == Some(KeyState::Retired) => {
                self.keys.current().map_err(lacking)
            }
            None => Err(lacking(id.clone())),
        }
    }

    /// Identifies a world and judges the answer by what was pinned before the request.
    async fn judged(
        &self,
        world: &str,
        known: Option<&WorldRecord>,
        identify: Identify<'_>,
    ) -> Result<Authority, Trouble> {
        let pinned = self.guards.pinned(world, known);
        let answered = identify().await?;
        self.guards.judge(world, pinned, &answered).await
    }

    /// One step of a drain, or the time of the next one.
    async fn drain(
        &self,
        leaver: &PeerStatus,
        mesh: &[PeerStatus],
        now: Timestamp,
    ) -> Result<(), Trouble> {
        let peer = &leaver.peer;
        let survivors = self.survivors(peer.id, mesh);
        let snapshot = snapshot_of(peer);
        let left = self.mesh.has_left(leaver);
        let others = Others { snapshot, survivors: &survivors, left };
        let step = peer.drain(&others, self.mesh.config().drain_timeouts, now);
        match step {
            DrainStep::Done => Ok(()),
            DrainStep::Wait { until } => {
                let mut rest = until.since(now);
                if let Some(snapshot) = snapshot
                    && !self.await_acknowledgements(leaver, &survivors, snapshot).await?
                {
                    rest = Duration::ZERO;
                }
                self.alarms.set(peer.registration.resource, Instant::now() + rest);
                Ok(())
            }
            DrainStep::Cordon | DrainStep::RevokeKey | DrainStep::Deregister(_) => {
                self.advance(peer, step, now).await
            }
        }
    }

    /// Publishes the snapshot of a drain and registers the missing acknowledgements, also with
    /// other servers; `false` if none is missing as far as this process knows.
    async fn await_acknowledgements(
        &self,
        leaver: &PeerStatus,
        survivors: &[Survivor],
        snapshot: u64,
    ) -> Result<bool, Trouble> {
        let Registration { resource, project, .. } = &leaver.peer.registration;
        self.mesh.publish(*project, snapshot);
        let missing = missing(survivors, snapshot);
        let elsewhere =
            self.store.is_shared() && missing.iter().any(|id| !self.mesh.is_connected(*id));
        let waits = self.mesh.await_all(*resource, snapshot, missing);
        if !elsewhere || leaver.asked_at.is_some() {
            return Ok(waits);
        }
        // An acknowledgement that was written before the request did not wake the resource.
        let asked = self.store.ask_acknowledgements(leaver.peer.id).await.map_err(into_trouble)?;
        Ok(waits && !asked)
    }

    /// Advances the drain of a peer by one step and notifies the nodes.
    pub async fn advance(
        &self,
        peer: &Peer,
        step: DrainStep,
        now: Timestamp,
    ) -> Result<(), Trouble> {
        let (before, after) = (peer.clone(), peer.advance(step, now));
        Failpoint::BeforeDrain.pass();
        self.store.move_peer(before, after.clone()).await.map_err(into_trouble)?;
        Failpoint::AfterDrain.pass();
        tracing::info!(node = %peer.id, stage = after.stage.as_str(), "node drain advanced");
        if let Some(snapshot) = snapshot_of(&after) {
            self.mesh.publish(after.registration.project, snapshot);
        }
        self.mesh.stage_changed_and_wake(&self.store, &after, now).await.map_err(into_trouble)
    }

    fn survivors(&self, leaver: PeerId, mesh: &[PeerStatus]) -> Vec<Survivor> {
        let stays = |it: &&PeerStatus| it.peer.id != leaver && it.peer.stage == Stage::Registered;
        let survivor = |it: &PeerStatus| Survivor {
            id: it.peer.id,
            acknowledged: self.mesh.last_heartbeat(it.peer.id).1.max(it.acknowledged),
            liveness: self.mesh.liveness(it),
        };
        mesh.iter().filter(stays).map(survivor).collect()
    }
}

/// The first snapshot without a draining peer. It is the time at which its key was revoked, so it
/// keeps growing across restarts.
pub(super) fn snapshot_of(peer: &Peer) -> Option<u64> {
    match peer.stage {
        Stage::Draining { key_revoked_at, .. } | Stage::Deregistered { key_revoked_at, .. } => {
            Some(key_revoked_at.as_micros().unsigned_abs())
        }
        Stage::Registered | Stage::Cordoned { .. } => None,
    }
}

fn missing(survivors: &[Survivor], snapshot: u64) -> BTreeSet<PeerId> {
    let silent = |it: &&Survivor| it.liveness != Liveness::Lost && it.acknowledged < snapshot;
    survivors.iter().filter(silent).map(|it| it.id).collect()
}

fn peer_snapshot(status: &PeerStatus) -> PeerSnapshot {
    let state = if status.peer.is_gone() {
        PeerState::Deregistered
    } else if status.lost_since.is_some() {
        PeerState::Lost
    } else {
        PeerState::Registered
    };
    PeerSnapshot { id: status.peer.id, state }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn lacking(key: KeyId) -> Trouble {
    let what = format!("key {key}: it is not in the key file of this server");
    Trouble::Unavailable { what, after: None }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn into_trouble(error: Error) -> Trouble {
    error.trouble()
}
