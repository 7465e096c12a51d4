//! Bootstrap tokens and the nodes that redeemed them.

use async_trait::async_trait;
use usher_api::ports::{Answer, Nodes};
use usher_api::refusal::Thing;
use usher_api::views::{Caller, NodeQuery, NodeView, Page, Paging, TokenView};
use usher_domain::audit::Action;
use usher_domain::object::id::{PeerId, ProjectId};
use usher_domain::peers::Liveness;
use usher_kernel::Timestamp;
use usher_store::{Error, PeerFilter, PeerStatus};

use super::names::not_found;
use super::{Services, after, failure, page};

#[async_trait]
impl Nodes for Services {
    async fn tokens(&self, project: Option<ProjectId>, paging: Paging) -> Answer<Page<TokenView>> {
        let now = self.store.now().await.map_err(failure)?;
        let count = paging.limit.saturating_add(1);
        let listed = self.store.list_tokens(project, after(&paging)?, count).await;
        let listed = listed.map_err(failure)?.into_iter();
        let items = listed.map(|(token, resource)| {
            let redeemable = token.is_redeemable(resource, now);
            TokenView { token, redeemable }
        });
        Ok(page(items.collect(), &paging, |it| it.token.id.to_string()))
    }

    async fn list(&self, query: NodeQuery, paging: Paging) -> Answer<Page<NodeView>> {
        let filter = PeerFilter { project: query.project, key: None, deregistered: query.all };
        let count = paging.limit.saturating_add(1);
        let listed = self.store.list_peers(filter, after(&paging)?, count).await;
        let listed = listed.map_err(failure)?.into_iter();
        let now = self.store.now().await.map_err(failure)?;
        let items = listed.map(|(peer, name)| self.node((peer, now), name)).collect();
        Ok(page(items, &paging, |it: &NodeView| it.peer.id.to_string()))
    }

    async fn get(&self, id: PeerId) -> Answer<NodeView> {
        let found = self.store.peer(id).await.map_err(failure)?;
        let found = found.ok_or_else(|| not_found(Thing::Node, &id.to_string()))?;
        let resource = found.peer.registration.resource;
        let names = self.store.display_names(resource).await.map_err(failure)?;
        let now = self.store.now().await.map_err(failure)?;
        Ok(self.node((found, now), names.map_or_else(|| resource.to_string(), |it| it.name)))
    }

    async fn force(&self, caller: &Caller, id: PeerId) -> Answer<NodeView> {
        let found = self.store.peer(id).await.map_err(failure)?;
        let PeerStatus { peer, .. } =
            found.ok_or_else(|| not_found(Thing::Node, &id.to_string()))?;
        let now = self.store.now().await.map_err(failure)?;
        let forced = peer.force(&caller.name.to_string(), now);
        if forced != peer && !peer.is_gone() {
            let project = peer.registration.project;
            let audited =
                self.with_audit(caller, Action::PeerForce, (Some(project), id.to_string()));
            match audited.move_peer(peer, forced).await {
                // Its stage changed meanwhile: retry with the current one.
                Err(Error::Conflict) => return self.force(caller, id).await,
                done => done.map_err(failure)?,
            }
        }
        Nodes::get(self, id).await
    }
}

impl Services {
    fn node(&self, (status, now): (PeerStatus, Timestamp), resource: String) -> NodeView {
        let id = status.peer.id;
        let liveness = self.mesh().liveness(&status);
        let (last_seen, _) = self.mesh().last_heartbeat(id);
        NodeView {
            peer: status.peer,
            resource,
            liveness,
            unknown: self.unknown((id, liveness), now),
            last_heartbeat_at: last_seen.as_ref().map(|it| now.before(it.at.elapsed())),
            agent_version: last_seen.map(|it| it.agent_version),
        }
    }

    /// Since when a node is unknown, and when it counts as lost.
    pub(super) fn unknown(
        &self,
        (id, liveness): (PeerId, Liveness),
        now: Timestamp,
    ) -> Option<(Timestamp, Timestamp)> {
        let unknown_for = self.mesh().unknown_for(id).filter(|_| liveness == Liveness::Unknown)?;
        Some((now.before(unknown_for.elapsed), now.after(unknown_for.left)))
    }
}
