//! The ports of the API over the store, the worlds and the mesh.
//!
//! **Invariants**
//! - Nothing is decided here: the domain judges commands, in transactions of the store.
//! - A refusal keeps its code; a database that does not answer is reported as unavailable.

mod agents;
mod catalog;
mod credentials;
mod events;
pub mod fleet;
mod keys;
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
use super::steps::Reconcilers;
use super::tally::Tally;
use super::worlds::Worlds;
use crate::clock;
use usher_wire::chain;

/// What new resources are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// URL of this server for agents.
    pub api_url: ApiUrl,
    /// Image of the agents.
    pub agent_image: AgentImage,
    /// How long idempotency keys are retained.
    pub key_keep: Duration,
}

/// The implementation of the ports.
pub struct Services {
    pub store: Arc<Store>,
    pub worlds: Arc<Worlds>,
    pub plane: SqlControlPlane,
    /// The reconcilers.
    pub reconcilers: Reconcilers,
    pub pins: Pins,
    pub tally: Arc<Tally>,
    /// Whether this process is stopping.
    pub stop: watch::Receiver<bool>,
}

impl Services {
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
            keys: self.clone(),
            readiness: self,
        }
    }

    fn mesh(&self) -> &Mesh {
        &self.plane.mesh
    }

    fn guards(&self) -> &Guards {
        &self.plane.guards
    }

    /// The store for one write that is audited in the same transaction.
    fn with_audit(
        &self,
        caller: &Caller,
        action: Action,
        subject: (Option<ProjectId>, String),
    ) -> WithAudit<'_> {
        self.store.with_audit(entry(caller, action, subject, Map::new()))
    }
}

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

/// The answer to a caller for an error of the store.
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
            tracing::warn!(error = %chain(&error), "failed to serve a request from the database");
            Failure::Unavailable { what: "the database".to_owned() }
        }
    }
}

/// The answer to a caller if a world or a guard is unavailable.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn unavailable(trouble: Trouble) -> Failure {
    Failure::Unavailable { what: trouble.to_string() }
}

/// Answers a missing row with this refusal.
fn missing(refusal: impl Into<Failure>) -> impl FnOnce(Error) -> Failure {
    move |error| {
        if matches!(error, Error::NotFound { .. }) { refusal.into() } else { failure(error) }
    }
}

/// The refusal of a cursor that this server did not issue.
fn bad_cursor(text: &str) -> Failure {
    Refusal::CursorInvalid { text: shortened(text) }.into()
}

/// The id after which a page begins.
fn after<Id: std::str::FromStr>(paging: &Paging) -> Answer<Option<Id>> {
    let read = |text: &String| text.parse().map_err(|_| bad_cursor(text));
    paging.after.as_ref().map(read).transpose()
}

/// One page of rows; the caller has read one row more than the limit.
fn page<T>(mut items: Vec<T>, paging: &Paging, key: impl Fn(&T) -> String) -> Page<T> {
    let limit = usize::try_from(paging.limit).unwrap_or(usize::MAX);
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(key);
    Page { items, next }
}

/// One page of all rows, sorted by key.
fn page_of_all<T>(items: Vec<T>, paging: &Paging, key: impl Fn(&T) -> String) -> Page<T> {
    let mut items = items;
    items.sort_by_key(&key);
    if let Some(after) = &paging.after {
        items.retain(|it| key(it) > *after);
    }
    page(items, paging, key)
}
