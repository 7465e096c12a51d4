//! Why a resource is in its phase: the reason of its last step, its blockers, and advice.

use usher_api::ports::Answer;
use usher_api::views::{Advice, Blocker, Why};
use usher_domain::broker::aggregate::{KIND_PEER, KIND_TOKEN, Resource};
use usher_domain::broker::event::Outcome;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_domain::broker::snapshot::TokenState;
use usher_domain::broker::world::{Explanation, WaitingObject};
use usher_domain::object::id::ResourceId;
use usher_domain::peers::{Liveness, Stage};
use usher_kernel::{NameState, Record, Timestamp};
use usher_store::{Error, PeerStatus, ResourceContext, WorkItem};

use super::runbook::{self, Live};
use super::{Services, failure};

impl Services {
    /// Explains the phase of a resource.
    pub(super) async fn explain(&self, id: ResourceId) -> Answer<Why> {
        let record = self.record(id).await?;
        let resource = self.view(&record).await?;
        let queue = self.store.queue_status(awake(&record.state)).await.map_err(failure)?;
        let explained = self.explanation(&record.state).await;
        let blockers = self.blockers(&record, &explained).await?;
        let is_failed = record.state.phase() == Phase::Failed;
        let live = Live {
            name: record.state.fields().name.clone(),
            world: record.state.pinned().world.clone(),
            since: record.state.fields().phase_since,
            now: self.store.now().await.map_err(failure)?,
            failure: explained.failure.filter(|_| is_failed),
        };
        let mut entry = runbook::entry(record.state.phase(), resource.reason, &live);
        if resource.reason == Some(Reason::AsDeclared) && resource.node == Some(Liveness::Unknown) {
            entry.summary = self.unclaimed(id, live.now).await?;
        }
        let parked = queue.as_ref().is_some_and(|it| it.entry.parked);
        let trouble = queue.as_ref().and_then(|it| it.trouble.clone());
        self.plane.refresh_keys().await.map_err(failure)?;
        let missing = self.plane.keys.missing();
        // Without the key healthy nodes seem lost: nothing else is advised.
        let mut advice: Vec<Advice> = match &missing {
            Some(key) => vec![runbook::key_missing(key)],
            None => entry.advice.into_iter().collect(),
        };
        advice.extend(runbook::beside(&live, trouble.as_deref(), parked));
        Ok(Why {
            resource,
            summary: entry.summary,
            blockers,
            advice,
            attempts: queue.as_ref().map_or(0, |it| it.entry.attempts),
            next_reconcile_at: queue.as_ref().and_then(|it| it.entry.due),
            parked,
            trouble,
        })
    }

    /// The summary of a resource that is as declared, as far as is known.
    async fn unclaimed(&self, id: ResourceId, now: Timestamp) -> Answer<String> {
        let nodes = self.store.peers_of(vec![id]).await.map_err(failure)?;
        let unknown = |it: &PeerStatus| self.unknown((it.peer.id, self.mesh().liveness(it)), now);
        Ok(match nodes.iter().rev().find_map(unknown) {
            Some((since, lost_at)) => format!(
                "no server hears its node since {}; it counts as lost at {}",
                since.to_rfc3339(),
                lost_at.to_rfc3339()
            ),
            None => "it is not known yet whether a server hears its node".to_owned(),
        })
    }

    /// What blocks a resource, and since when.
    pub(super) async fn blockers(
        &self,
        record: &Record<Resource>,
        explained: &Explanation,
    ) -> Answer<Vec<Blocker>> {
        let resource = &record.state;
        if resource.phase() == Phase::Deleted {
            return Ok(vec![]);
        }
        let beside = match self.store.resource_context(resource).await {
            Ok(beside) => beside,
            // An unreadable record is the explanation, not a reason to refuse one.
            Err(error @ (Error::NotFound { .. } | Error::Corrupt { .. })) => {
                return Ok(vec![unreadable(resource.id(), &error)]);
            }
            Err(error) => return Err(failure(error)),
        };
        let mut blockers = Vec::new();
        if let Some(at) = beside.world.as_ref().and_then(|it| it.tripped_at) {
            blockers.push(Blocker {
                kind: "guard".to_owned(),
                name: resource.pinned().world.clone(),
                since: Some(at),
                text: "the mass-deletion guard tripped, so absence is not believed".to_owned(),
            });
        }
        if resource.is_tearing_down() {
            let nodes = beside.peers.iter().filter(|it| !it.peer.is_gone());
            blockers.extend(nodes.map(|it| self.node_blocker(it)));
            blockers.extend(remaining(record));
        } else {
            blockers.extend(converging(resource, &beside));
            blockers.extend(explained.waits.iter().map(waiting));
        }
        if let Some(until) = resource.fields().grace_until.filter(|it| *it > beside.now) {
            blockers.push(in_flight_grace(resource.id(), until));
        }
        Ok(blockers)
    }

    fn node_blocker(&self, node: &PeerStatus) -> Blocker {
        let peer = &node.peer;
        let heartbeats = match self.mesh().liveness(node) {
            Liveness::Live => "its heartbeats arrive",
            Liveness::Lost => "its heartbeats have stopped",
            Liveness::Unknown => "no running server has received a heartbeat",
        };
        let since = match peer.stage {
            Stage::Registered => peer.registered_at,
            Stage::Cordoned { since } | Stage::Draining { since, .. } => since,
            Stage::Deregistered { at, .. } => at,
        };
        Blocker {
            kind: "peer".to_owned(),
            name: peer.id.to_string(),
            since: Some(since),
            text: format!("the node is {}; {heartbeats}", peer.stage.as_str()),
        }
    }

    /// The explanation of its world; empty if this server has no such world.
    pub(super) async fn explanation(&self, resource: &Resource) -> Explanation {
        match self.worlds.get(&resource.pinned().world) {
            Ok(world) => world.explain(resource).await,
            Err(_) => Explanation::default(),
        }
    }
}

fn waiting(object: &WaitingObject) -> Blocker {
    let WaitingObject { kind, name, since, text } = object.clone();
    Blocker { kind, name, since: Some(since), text }
}

/// The objects of a resource in teardown that still exist.
fn remaining(record: &Record<Resource>) -> Vec<Blocker> {
    let outside = |kind: &str| kind != KIND_PEER && kind != KIND_TOKEN;
    let rows = record.name_ledger.rows().iter().filter(|row| outside(&row.name.kind));
    let rows = rows.filter(|row| row.state == NameState::Seen);
    let blocker = |row: &usher_kernel::Row| Blocker {
        kind: row.name.kind.clone(),
        name: row.name.name.clone(),
        since: Some(row.evidence.at),
        text: format!("it still exists; {} answered: {}", row.evidence.by, row.evidence.answer),
    };
    rows.map(blocker).collect()
}

/// What a resource in provisioning waits for.
fn converging(resource: &Resource, beside: &ResourceContext) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    if !beside.config.is_ready() && resource.phase() == Phase::Pending {
        blockers.push(Blocker {
            kind: "provider-config".to_owned(),
            name: resource.pinned().provider_config.to_string(),
            since: None,
            text: format!("it is {}", beside.config.phase.as_str()),
        });
    }
    let token = beside.tokens.iter().find(|it| it.generation == resource.generation());
    if let Some(token) = token.filter(|it| it.state != TokenState::Consumed)
        && resource.phase() == Phase::Enrolling
    {
        let expired = token.state == TokenState::Expired;
        let state = if expired { "it has expired" } else { "it is not redeemed yet" };
        blockers.push(Blocker {
            kind: "token".to_owned(),
            name: token.id.to_string(),
            since: Some(token.issued_at),
            text: state.to_owned(),
        });
    }
    blockers
}

/// The in-flight grace: a request of an earlier worker may still arrive.
fn in_flight_grace(id: ResourceId, until: Timestamp) -> Blocker {
    Blocker {
        kind: "in-flight-grace".to_owned(),
        name: id.to_string(),
        since: None,
        text: format!("an earlier request may still arrive until {}", until.to_rfc3339()),
    }
}

fn unreadable(id: ResourceId, error: &Error) -> Blocker {
    let (kind, name) = ("row".to_owned(), id.to_string());
    Blocker { kind, name, since: None, text: error.to_string() }
}

/// The work item of a resource.
fn awake(resource: &Resource) -> WorkItem {
    let removed = resource.fields().outcome == Some(Outcome::Removed);
    if removed { WorkItem::Tombstone(resource.id()) } else { WorkItem::Resource(resource.id()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: T-35
    #[test]
    fn in_flight_grace_is_shown_as_an_rfc3339_time() {
        let id = ResourceId::from_uuid(uuid::Uuid::from_u128(1));
        let text = in_flight_grace(id, Timestamp::from_millis(1_500)).text;
        assert_eq!(text, "an earlier request may still arrive until 1970-01-01T00:00:01.500000Z");
    }
}
