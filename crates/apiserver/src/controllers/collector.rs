//! The garbage collector: deletes objects without owners, and finishes foreground and orphan
//! deletion.
//!
//! A graph of all objects by uid follows the changes of the store; every decision reads the current
//! objects again. A failed request is retried with back-off. An object whose owner's kind is not
//! served is ignored until the served kinds change.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::feed::{Feed, Observed};
use super::graph::{Graph, Node};
use super::until;
use crate::auth::User;
use crate::core::{Core, text};
use crate::faults::{COLLECTOR, Fault, RequestKind};
use crate::kinds::{Resource, group_version};
use crate::status::Refusal;
use crate::store::{Change, Entry};
use crate::verbs::RequestContext;
use crate::verbs::delete::{self, DeleteOptions, FOREGROUND, ORPHAN, Policy};
use crate::verbs::update::{Edit, update};

const MANAGER: &str = "kube-controller-manager";
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(1000);

/// Runs until shutdown. With an interval, it learns of new kinds only at its ticks.
pub(crate) async fn run(core: Arc<Core>, discovery_interval: Option<Duration>) {
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
    let user = User::with_groups(COLLECTOR, &groups);
    let feed = Feed::new(&core, &user, discovery_interval);
    let mut collector = Collector {
        core,
        feed,
        user,
        graph: Graph::default(),
        queue: VecDeque::new(),
        queued: HashSet::new(),
        later: BTreeSet::new(),
        patience: HashMap::new(),
        unknown: BTreeSet::new(),
    };
    loop {
        let retry = collector.later.first().map(|(when, _)| *when);
        let woken = tokio::select! {
            woken = collector.feed.wait() => woken,
            () = until(retry) => Some(false),
        };
        let Some(kinds_changed) = woken else { return };
        collector.poll();
        if kinds_changed {
            for uid in std::mem::take(&mut collector.unknown) {
                collector.enqueue(&uid);
            }
        }
        collector.due();
        while let Some(uid) = collector.next() {
            collector.collect(&uid).await;
            collector.poll();
        }
    }
}

struct Collector {
    core: Arc<Core>,
    feed: Feed,
    user: User,
    graph: Graph,
    queue: VecDeque<String>,
    queued: HashSet<String>,
    later: BTreeSet<(Instant, String)>,
    patience: HashMap<String, Duration>,
    /// Objects of an unwatched kind, or with an owner of a kind that is not served or watched.
    unknown: BTreeSet<String>,
}

/// The owners of an object, by state.
#[derive(Default)]
struct Owners {
    /// Existing and not being deleted.
    solid: usize,
    /// Waiting for foreground deletion of their dependents.
    waiting: Vec<String>,
    /// Absent.
    dangling: Vec<String>,
}

impl Collector {
    /// Takes over what has changed.
    fn poll(&mut self) {
        let seen = self.feed.poll();
        self.absorb(seen);
    }

    fn absorb(&mut self, seen: Vec<(Arc<Resource>, Observed)>) {
        for (resource, seen) in seen {
            match seen {
                Observed::All(entries) => {
                    let entries = entries.iter().filter(|entry| Node::concerns(entry));
                    let nodes: Vec<Node> =
                        entries.map(|entry| Node::of(&resource, &entry.head())).collect();
                    let there: HashSet<&str> = nodes.iter().map(|node| node.uid.as_str()).collect();
                    self.forget_others(&resource, &there);
                    for node in nodes {
                        self.insert(node);
                    }
                }
                Observed::Changes(changes) => {
                    for change in changes {
                        self.absorb_change(&resource, &change);
                    }
                }
                Observed::Gone => self.forget_others(&resource, &HashSet::new()),
            }
        }
    }

    fn absorb_change(&mut self, resource: &Arc<Resource>, change: &Change) {
        match (&change.new, &change.old) {
            (Some(new), old) => {
                if Node::concerns(new) || old.as_deref().is_some_and(Node::concerns) {
                    self.insert(Node::of(resource, &new.head()));
                }
            }
            (None, Some(old)) => self.forget(text(&old.head(), "/metadata/uid")),
            (None, None) => {}
        }
    }

    /// Forgets the objects of a kind that are not there any more. Which owners without a node are
    /// gone is not known, so their dependents are looked at again.
    fn forget_others(&mut self, resource: &Resource, there: &HashSet<&str>) {
        for uid in self.graph.of_table(&resource.table) {
            if !there.contains(uid.as_str()) {
                self.forget(&uid);
            }
        }
        for uid in self.graph.owned_by_kind(resource) {
            self.enqueue(&uid);
        }
    }

    fn insert(&mut self, node: Node) {
        let uid = node.uid.clone();
        let wants = !node.owners.is_empty() || node.deleting && (node.foreground || node.orphan);
        let waited = self.graph.get(&uid).is_some_and(|old| old.deleting && old.foreground);
        if node.deleting && node.foreground && !waited {
            // Before the owner, which may stop waiting at once.
            for dependent in self.graph.dependents(&uid) {
                self.enqueue(&dependent);
            }
        }
        let lost = self.graph.insert(node);
        if wants {
            self.enqueue(&uid);
        }
        for owner in lost {
            self.enqueue(&owner);
        }
    }

    fn forget(&mut self, uid: &str) {
        let (owners, dependents) = self.graph.remove(uid);
        self.patience.remove(uid);
        for other in owners.into_iter().chain(dependents) {
            self.enqueue(&other);
        }
    }

    fn enqueue(&mut self, uid: &str) {
        if self.graph.get(uid).is_some() && self.queued.insert(uid.to_owned()) {
            self.queue.push_back(uid.to_owned());
        }
    }

    fn next(&mut self) -> Option<String> {
        let uid = self.queue.pop_front()?;
        self.queued.remove(&uid);
        Some(uid)
    }

    /// Moves due retries to the queue.
    fn due(&mut self) {
        let now = Instant::now();
        while let Some((when, _)) = self.later.first() {
            if *when > now {
                return;
            }
            if let Some((_, uid)) = self.later.pop_first() {
                self.enqueue(&uid);
            }
        }
    }

    fn retry(&mut self, uid: &str) {
        let patience = self.patience.entry(uid.to_owned()).or_insert(FIRST_RETRY);
        let wait = *patience;
        *patience = (wait * 2).min(LAST_RETRY);
        self.later.insert((Instant::now() + wait, uid.to_owned()));
    }

    async fn collect(&mut self, uid: &str) {
        let Some(node) = self.graph.get(uid).cloned() else { return };
        if self.feed.is_hidden(&node.resource) {
            self.unknown.insert(uid.to_owned());
            return;
        }
        let key = node.resource.key(&node.namespace, &node.name);
        let Some(entry) = self.core.store.get(&node.resource.table, &key) else { return };
        let live = Node::of(&node.resource, &entry.head());
        if live.uid != uid {
            return;
        }
        let done = if live.deleting && live.foreground {
            self.foreground(&live).await
        } else if live.deleting && live.orphan {
            self.orphan(&live).await
        } else if live.deleting {
            Ok(())
        } else {
            self.dependent(&live, &entry).await
        };
        match done {
            Ok(()) => {
                self.patience.remove(uid);
            }
            Err(refusal) if refusal.code == 404 => {}
            Err(refusal) => {
                tracing::debug!(
                    why = refusal.message,
                    name = live.name,
                    "failed to collect an object"
                );
                self.retry(uid);
            }
        }
    }

    /// Handles an owner in foreground deletion.
    async fn foreground(&mut self, owner: &Node) -> Result<(), Refusal> {
        let blocking: Vec<String> = self.graph.blocking(&owner.uid);
        if blocking.is_empty() {
            return self.strip_finalizer(owner, FOREGROUND).await;
        }
        for uid in blocking {
            self.enqueue(&uid);
        }
        Ok(())
    }

    /// Handles an owner that orphans its dependents.
    async fn orphan(&mut self, owner: &Node) -> Result<(), Refusal> {
        for uid in self.graph.dependents(&owner.uid) {
            let Some(node) = self.graph.get(&uid).cloned() else { continue };
            let gone = vec![owner.uid.clone()];
            self.edit(&node, &Disown { uid: node.uid.clone(), gone }).await?;
        }
        self.strip_finalizer(owner, ORPHAN).await
    }

    /// Handles an object with owners.
    async fn dependent(&mut self, node: &Node, entry: &Entry) -> Result<(), Refusal> {
        let Some(owners) = self.classify(node) else {
            self.unknown.insert(node.uid.clone());
            return Ok(());
        };
        if owners.solid > 0 {
            let gone: Vec<String> = owners.dangling.into_iter().chain(owners.waiting).collect();
            if gone.is_empty() {
                return Ok(());
            }
            return self.edit(node, &Disown { uid: node.uid.clone(), gone }).await;
        }
        if owners.waiting.is_empty() && owners.dangling.is_empty() {
            return Ok(());
        }
        let dependents = self.graph.dependents(&node.uid);
        let policy = if !owners.waiting.is_empty() && !dependents.is_empty() {
            let cycle = dependents.iter().any(|uid| {
                self.graph.get(uid).is_some_and(|other| other.deleting && other.foreground)
            });
            if cycle {
                self.edit(node, &Unblock { uid: node.uid.clone() }).await?;
                self.enqueue(&node.uid);
            }
            Policy::Foreground
        } else if node.orphan {
            Policy::Orphan
        } else if node.foreground {
            Policy::Foreground
        } else {
            Policy::Background
        };
        self.delete(node, entry, policy).await
    }

    /// The owners of an object; `None` if the kind of one is not served or not watched.
    fn classify(&self, node: &Node) -> Option<Owners> {
        let mut owners = Owners::default();
        let kinds = self.core.registry.kinds();
        for owner in &node.owners {
            let (group, version) = group_version(&owner.api_version);
            let resource = kinds.of_kind(group, version, &owner.kind)?;
            let misplaced = resource.namespaced && node.namespace.is_empty();
            if misplaced || self.feed.is_hidden(resource) {
                return None;
            }
            let key = resource.key(&node.namespace, &owner.name);
            let found = self.core.store.get(&resource.table, &key);
            let found = found.map(|entry| Node::of(resource, &entry.head()));
            match found.filter(|live| live.uid == owner.uid) {
                None => owners.dangling.push(owner.uid.clone()),
                Some(live) if live.deleting && live.foreground => {
                    owners.waiting.push(owner.uid.clone());
                }
                Some(_) => owners.solid += 1,
            }
        }
        Some(owners)
    }

    fn context<'a>(&'a self, node: &'a Node) -> RequestContext<'a> {
        let place = (node.namespace.as_str(), node.name.as_str());
        RequestContext::new(&self.core, &node.resource, place, &self.user).by(MANAGER)
    }

    async fn edit(&self, node: &Node, edit: &dyn Edit) -> Result<(), Refusal> {
        let mut ctx = self.context(node);
        let operation = async { update(&mut ctx, edit).await.map(|_| ()) };
        self.fault("patch", node).apply(operation, &self.core.ending).await
    }

    /// The injected fault of a collector request.
    fn fault(&self, verb: &str, node: &Node) -> Fault {
        self.core.faults.for_request(|| RequestKind {
            user: self.user.name.clone(),
            verb: verb.to_owned(),
            resource: node.resource.qualified(),
            subresource: String::new(),
            namespace: node.namespace.clone(),
            name: node.name.clone(),
        })
    }

    async fn strip_finalizer(&self, node: &Node, finalizer: &'static str) -> Result<(), Refusal> {
        self.edit(node, &Strip { uid: node.uid.clone(), finalizer }).await
    }

    async fn delete(&self, node: &Node, entry: &Entry, policy: Policy) -> Result<(), Refusal> {
        let version = entry.revision.to_string();
        let word = match policy {
            Policy::Orphan => "Orphan",
            Policy::Background => "Background",
            Policy::Foreground => "Foreground",
        };
        let options = DeleteOptions {
            uid: Some(node.uid.clone()),
            version: Some(version.clone()),
            policy: Some(policy),
            dry_run: false,
            legacy: false,
            given: json!({
                "kind": "DeleteOptions",
                "apiVersion": "meta.k8s.io/v1",
                "preconditions": {"uid": node.uid, "resourceVersion": version},
                "propagationPolicy": word,
            }),
        };
        let mut ctx = self.context(node);
        let operation = async { delete::delete(&mut ctx, &options).await.map(|_| ()) };
        self.fault("delete", node).apply(operation, &self.core.ending).await
    }
}

/// Removes owner references.
struct Disown {
    uid: String,
    gone: Vec<String>,
}

/// Clears `blockOwnerDeletion` of the owner references.
struct Unblock {
    uid: String,
}

/// Removes a finalizer.
struct Strip {
    uid: String,
    finalizer: &'static str,
}

impl Edit for Disown {
    fn edit(&self, _ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        let Some(metadata) = next["metadata"].as_object_mut() else { return Ok(next) };
        let Some(list) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) else {
            return Ok(next);
        };
        list.retain(|owner| !self.gone.iter().any(|gone| text(owner, "/uid") == gone));
        if list.is_empty() {
            metadata.remove("ownerReferences");
        }
        Ok(next)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}

impl Edit for Unblock {
    fn edit(&self, _ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        let owners = next.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            if owner["blockOwnerDeletion"].as_bool() == Some(true) {
                owner["blockOwnerDeletion"] = json!(false);
            }
        }
        Ok(next)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}

impl Edit for Strip {
    fn edit(&self, _ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        let Some(metadata) = next["metadata"].as_object_mut() else { return Ok(next) };
        let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut) else {
            return Ok(next);
        };
        list.retain(|finalizer| finalizer.as_str() != Some(self.finalizer));
        if list.is_empty() {
            metadata.remove("finalizers");
        }
        Ok(next)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}
