//! Who answers the routes: the ports of the API over the store, the world and the mesh.
//!
//! **Invariants**
//! - Nothing is decided here: commands are judged by the domain, in the store's transactions.
//! - A refusal keeps its closed code; the database's silence is told as unavailable.

mod agents;
mod catalog;
mod credentials;
mod events;
pub mod fleet;
mod labels;
mod names;
mod nodes;
mod operators;
mod orphans;
mod plan;
mod projects;
mod readiness;
mod resources;
mod runbook;
mod why;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::watch;
use usher_api::ports::{Answer, Failure, Ports, Refused};
use usher_api::refusal::Refusal;
use usher_api::views::{Caller, Page, Paging};
use usher_domain::audit::{Action, Entry};
use usher_domain::broker::render::{AgentImage, ApiUrl};
use usher_domain::object::id::{AuditId, ProjectId};
use usher_domain::object::offender::shortened;
use usher_kernel::Trouble;
use usher_store::{Error, Store, WithAudit};
use uuid::Uuid;

use self::fleet::Machines;
use super::control_plane::SqlControlPlane;
use super::guard::Guards;
use super::mesh::Mesh;
use super::steps::Lives;
use super::tally::Tally;
use super::worlds::Worlds;
use crate::clock;
use usher_wire::chain;

/// What new resources are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// Where agents find us.
    pub api_url: ApiUrl,
    /// What agents are.
    pub agent_image: AgentImage,
    /// How long idempotency keys are remembered.
    pub key_keep: Duration,
}

/// Everything the answers come from.
pub struct Services {
    /// The store.
    pub store: Arc<Store>,
    /// The worlds.
    pub worlds: Arc<Worlds>,
    /// The control plane.
    pub plane: SqlControlPlane,
    /// The rules.
    pub lives: Lives,
    /// What new resources are pinned to.
    pub pins: Pins,
    /// The counters.
    pub tally: Arc<Tally>,
    /// Whether this process is asked to stop.
    pub stop: watch::Receiver<bool>,
}

impl Services {
    /// The ports of the routes.
    pub fn ports(self: Arc<Self>) -> Ports {
        Ports {
            resources: self.clone(),
            orphans: self.clone(),
            events: self.clone(),
            projects: self.clone(),
            catalog: self.clone(),
            clouds: self.clone(),
            credentials: self.clone(),
            labels: self.clone(),
            nodes: self.clone(),
            fleet: Arc::new(Machines { store: Arc::clone(&self.store) }),
            operators: self.clone(),
            agents: self.clone(),
            readiness: self,
        }
    }

    fn mesh(&self) -> &Mesh {
        &self.plane.mesh
    }

    fn guards(&self) -> &Guards {
        &self.plane.guards
    }

    /// The next write, as an order that is noted with it.
    fn noted(
        &self,
        caller: &Caller,
        action: Action,
        subject: (Option<ProjectId>, String),
    ) -> WithAudit<'_> {
        self.store.with_audit(entry(caller, action, subject, Map::new()))
    }
}

/// A row of the audit log.
fn entry(
    caller: &Caller,
    action: Action,
    (project, subject): (Option<ProjectId>, String),
    detail: Map<String, Value>,
) -> Entry {
    Entry {
        id: AuditId::from_uuid(Uuid::now_v7()),
        at: clock::now(),
        actor: caller.name.to_string(),
        action,
        project,
        subject,
        detail,
    }
}

/// What a caller is told of the store's error.
fn failure(error: Error) -> Failure {
    match error {
        Error::Refused(refusal) => refusal.into(),
        Error::FleetRefused(refusal) => refusal.into(),
        Error::Served { cluster, shard } => Refusal::ClusterServed { cluster, shard }.into(),
        Error::Taken { .. } => Refused::new("name_in_use", error.to_string()).into(),
        Error::Held { what } => Refusal::StillReferenced { what }.into(),
        Error::Leaving { .. } => Refused::new("resource_leaving", error.to_string()).into(),
        Error::Forgotten { after, .. } => {
            Refusal::CursorForgotten { text: after.to_string() }.into()
        }
        Error::Corrupt { .. } | Error::NotFound { .. } | Error::Schema(_) => {
            Failure::Broken { what: chain(&error) }
        }
        Error::Conflict
        | Error::LeaseLost { .. }
        | Error::ViewsMoved { .. }
        | Error::OutcomeUnknown { .. }
        | Error::Full { .. }
        | Error::ReadOnly { .. }
        | Error::InUse { .. }
        | Error::File { .. }
        | Error::Closed
        | Error::Database { .. } => {
            tracing::warn!(error = %chain(&error), "the database did not answer a request");
            Failure::Unavailable { what: "the database".to_owned() }
        }
    }
}

/// What a caller is told of a world's or a guard's trouble.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn unavailable(trouble: Trouble) -> Failure {
    Failure::Unavailable { what: trouble.to_string() }
}

/// What a caller is told if a row is not there.
fn missing(refusal: impl Into<Failure>) -> impl FnOnce(Error) -> Failure {
    move |error| {
        if matches!(error, Error::NotFound { .. }) { refusal.into() } else { failure(error) }
    }
}

/// A place in a listing that nobody gave.
fn bad_cursor(text: &str) -> Failure {
    Refusal::CursorInvalid { text: shortened(text) }.into()
}

/// Where a listing by id goes on.
fn after<Id: std::str::FromStr>(paging: &Paging) -> Answer<Option<Id>> {
    let read = |text: &String| text.parse().map_err(|_| bad_cursor(text));
    paging.after.as_ref().map(read).transpose()
}

/// One page of rows that were read with one more than wanted.
fn page<T>(mut items: Vec<T>, paging: &Paging, key: impl Fn(&T) -> String) -> Page<T> {
    let limit = usize::try_from(paging.limit).unwrap_or(usize::MAX);
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(key);
    Page { items, next }
}

/// One page of rows that were all read, in the order of their keys.
fn page_of_all<T>(items: Vec<T>, paging: &Paging, key: impl Fn(&T) -> String) -> Page<T> {
    let mut items = items;
    items.sort_by_key(&key);
    if let Some(after) = &paging.after {
        items.retain(|it| key(it) > *after);
    }
    page(items, paging, key)
}
