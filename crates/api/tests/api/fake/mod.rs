//! Ports in memory. They refuse what the real ones refuse, and fail on demand.

mod fleet;
mod resources;
mod tenancy;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::json;
use tokio::sync::Notify;
use usher_api::fleet::DemandView;
use usher_api::ports::{Answer, Failure, Ports};
use usher_api::views::{Caller, Check, LogEntry, Page, Paging, ResourceView, Subject};
use usher_domain::blueprint::{CompositeType, InjectionStrategy, MeshRole, ParameterValues};
use usher_domain::broker::aggregate::{Declared, Pinned, Resource};
use usher_domain::object::id::{
    BlueprintVersionId, CredentialId, EventId, InstallationId, OperatorTokenId, PeerId, ProjectId,
    ProviderConfigId, ResourceId, TenancyId,
};
use usher_domain::object::idempotency::Digest;
use usher_domain::object::label::Labels;
use usher_domain::object::manifest::SecretText;
use usher_domain::object::name;
use usher_domain::operators::{Grant, Reach, TokenHash};
use usher_domain::projects::Project;
use usher_kernel::{Timestamp, Version};
use uuid::Uuid;

pub(crate) use fleet::machine;

pub(crate) const START: Timestamp = Timestamp::from_millis(1_000);
/// The secret of the one node.
pub(crate) const NODE_SECRET: &str = "node-canary";

/// The names of the tokens and their texts.
pub(crate) const TOKENS: [(&str, &str); 5] = [
    ("viewer", "viewer-canary"),
    ("watcher", "watcher-canary"),
    ("operator", "operator-canary"),
    ("other-operator", "other-operator-canary"),
    ("admin", "admin-canary"),
];

pub(crate) fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(0x0189_0a5d_ac96_774b_bcce_b302_099a_0000 + n)
}

pub(crate) fn demo() -> ProjectId {
    ProjectId::from_uuid(uuid(1))
}

pub(crate) fn other() -> ProjectId {
    ProjectId::from_uuid(uuid(2))
}

pub(crate) fn node() -> PeerId {
    PeerId::from_uuid(uuid(3))
}

/// The first resource, which is in `demo`.
pub(crate) fn first() -> ResourceId {
    ResourceId::from_uuid(uuid(100))
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) projects: Vec<Project>,
    pub(crate) resources: Vec<ResourceView>,
    pub(crate) events: Vec<LogEntry>,
    pub(crate) keys: BTreeMap<(String, ProjectId, String), (Digest, ResourceId)>,
    pub(crate) labels: Labels,
    pub(crate) demands: Vec<DemandView>,
    pub(crate) paused: bool,
    pub(crate) dry_run: bool,
    pub(crate) failing: Option<Failure>,
    pub(crate) checks: Vec<Check>,
    pub(crate) is_closed: bool,
}

/// The ports.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<Mutex<State>>,
    appended: Arc<Notify>,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let fake = Self::default();
        {
            let mut state = fake.state();
            for (id, slug) in [(demo(), "demo"), (other(), "other")] {
                let (slug, name) = (slug.parse().unwrap(), slug.parse().unwrap());
                state.projects.push(Project { id, slug, name });
            }
            state.checks.push(Check { name: "database".to_owned(), failing: None });
            state.checks.push(Check { name: "world:local".to_owned(), failing: None });
        }
        fake.declare(demo(), "web-1");
        fake
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn ports(&self) -> Ports {
        let it = Arc::new(self.clone());
        Ports {
            resources: it.clone(),
            orphans: it.clone(),
            events: it.clone(),
            projects: it.clone(),
            catalog: it.clone(),
            clouds: it.clone(),
            credentials: it.clone(),
            labels: it.clone(),
            nodes: it.clone(),
            fleet: it.clone(),
            operators: it.clone(),
            agents: it.clone(),
            keys: it.clone(),
            readiness: it,
        }
    }

    /// Fails every verb but admission from now on.
    pub(crate) fn fail(&self, failure: Option<Failure>) {
        self.state().failing = failure;
    }

    pub(crate) fn check(&self) -> Answer<()> {
        self.state().failing.clone().map_or(Ok(()), Err)
    }

    /// Appends an event about the first resource.
    pub(crate) fn append(&self, project: ProjectId, n: u64) {
        self.append_event(Subject::Resource(first(), project), n);
    }

    pub(crate) fn append_event(&self, subject: Subject, n: u64) {
        let mut state = self.state();
        let seq = state.events.len() + 1;
        state.events.push(LogEntry {
            cursor: usher_api::views::Cursor(format!("1.0.{seq}")),
            id: EventId::from_uuid(uuid(1_000 + u128::from(n))),
            event_type: usher_domain::broker::event::EventType::Ready.as_str(),
            subject,
            version: Version(n),
            occurred_at: START,
            data: serde_json::Map::new(),
        });
        drop(state);
        self.appended.notify_waiters();
    }

    /// Ends every stream.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.appended.notify_waiters();
    }

    pub(crate) fn declare(&self, project: ProjectId, name: &str) -> ResourceView {
        let mut state = self.state();
        let id = ResourceId::from_uuid(uuid(100 + state.resources.len() as u128));
        let slug = state.projects.iter().find(|it| it.id == project).unwrap().slug.clone();
        let view = ResourceView {
            resource: resource(id, project, name),
            version: Version(1),
            reason: None,
            project: slug,
            blueprint: Some(("local-node".parse().unwrap(), "1.0.0".to_owned())),
            credential: Some("local".parse().unwrap()),
            node: None,
        };
        state.resources.push(view.clone());
        view
    }
}

pub(crate) fn caller(name: &str) -> Option<Caller> {
    let grant = match name {
        "viewer" => Grant::Viewer(Reach::Project(demo())),
        "watcher" => Grant::Viewer(Reach::Installation),
        "operator" => Grant::Operator(demo()),
        "other-operator" => Grant::Operator(other()),
        "admin" => Grant::Admin,
        _ => return None,
    };
    let at = TOKENS.iter().position(|(it, _)| *it == name)?;
    let token = OperatorTokenId::from_uuid(uuid(10 + at as u128));
    Some(Caller { token, name: name.parse().unwrap(), grant })
}

/// The caller whose token has this hash.
fn known(hash: TokenHash) -> Option<Caller> {
    let texts = TOKENS.iter().find(|(_, text)| TokenHash::of(&SecretText::new(*text)) == hash);
    texts.and_then(|(name, _)| caller(name))
}

fn resource(id: ResourceId, project: ProjectId, name: &str) -> Resource {
    let xrd = json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": "xnodes.example.org" },
        "spec": {
            "scope": "Namespaced",
            "group": "example.org",
            "names": { "kind": "XNode", "plural": "xnodes" },
            "versions": [{ "name": "v1", "served": true }],
        },
    });
    let declared = Declared {
        id,
        name: name.to_owned(),
        tenancy: TenancyId::from_uuid(uuid(20)),
        project,
        blueprint_version: BlueprintVersionId::from_uuid(uuid(21)),
        credential: CredentialId::from_uuid(uuid(22)),
        pinned: Pinned {
            installation: InstallationId::from_uuid(uuid(23)),
            world: "local".to_owned(),
            namespace: name::namespace(project),
            composite: CompositeType::from_xrd(&xrd).unwrap(),
            xr_name: name::xr(id),
            role: MeshRole::Node,
            strategy: InjectionStrategy::CloudInitUserData,
            parameters: ParameterValues::default(),
            api_url: "https://usher.example:7420".parse().unwrap(),
            agent_image: "registry.example/usher/agent:0.1.0".parse().unwrap(),
            provider_config: ProviderConfigId::from_uuid(uuid(24)),
        },
    };
    Resource::declare(declared, START).unwrap()
}

/// A page of all items; a cursor is a number.
pub(crate) fn paged<T: Clone>(items: &[T], paging: &Paging) -> Answer<Page<T>> {
    let invalid = |text: &str| {
        let text = text.to_owned();
        Failure::from(usher_api::refusal::Refusal::CursorInvalid { text })
    };
    let begin = match &paging.after {
        Some(text) => text.parse::<usize>().map_err(|_| invalid(text))?,
        None => 0,
    };
    let end = items.len().min(begin.saturating_add(paging.limit as usize));
    let next = (end < items.len()).then(|| end.to_string());
    Ok(Page { items: items.get(begin..end).unwrap_or_default().to_vec(), next })
}
