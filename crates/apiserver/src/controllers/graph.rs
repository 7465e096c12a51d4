//! The ownership graph, by uid.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::core::text;
use crate::kinds::{Resource, group_version};
use crate::store::Entry;
use crate::verbs::delete::{FOREGROUND, ORPHAN};

/// The ownership data of one object.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) uid: String,
    pub(super) resource: Arc<Resource>,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) owners: Vec<Owner>,
    pub(super) deleting: bool,
    pub(super) foreground: bool,
    pub(super) orphan: bool,
}

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) blocks: bool,
}

/// The objects that concern the collector, and the dependents of all.
///
/// An object that has no owners and is not being deleted has no node: most objects are such.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<String>>,
}

impl Node {
    /// Whether the graph has a node of an object.
    pub(super) fn concerns(entry: &Entry) -> bool {
        entry.has_owners() || entry.is_deleting()
    }

    pub(super) fn of(resource: &Arc<Resource>, value: &Value) -> Self {
        let owners = value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = |owner: &Value| Owner {
            api_version: text(owner, "/apiVersion").to_owned(),
            kind: text(owner, "/kind").to_owned(),
            name: text(owner, "/name").to_owned(),
            uid: text(owner, "/uid").to_owned(),
            blocks: owner["blockOwnerDeletion"].as_bool().unwrap_or_default(),
        };
        let finalizers = value.pointer("/metadata/finalizers").and_then(Value::as_array);
        let has = |wanted: &str| {
            finalizers.into_iter().flatten().any(|name| name.as_str() == Some(wanted))
        };
        Self {
            uid: text(value, "/metadata/uid").to_owned(),
            resource: resource.clone(),
            namespace: text(value, "/metadata/namespace").to_owned(),
            name: text(value, "/metadata/name").to_owned(),
            owners: owners.into_iter().flatten().map(owner).collect(),
            deleting: value.pointer("/metadata/deletionTimestamp").is_some(),
            foreground: has(FOREGROUND),
            orphan: has(ORPHAN),
        }
    }
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Inserts a node, or removes it if it does not concern the collector any more; returns the
    /// owners that it no longer has or no longer blocks.
    pub(super) fn insert(&mut self, node: Node) -> Vec<String> {
        let mut lost = Vec::new();
        if let Some(old) = self.nodes.get(&node.uid) {
            for owner in &old.owners {
                let now = node.owners.iter().find(|other| other.uid == owner.uid);
                if now.is_none()
                    && let Some(set) = self.dependents.get_mut(&owner.uid)
                {
                    set.remove(&node.uid);
                    if set.is_empty() {
                        self.dependents.remove(&owner.uid);
                    }
                }
                if now.is_none_or(|now| owner.blocks && !now.blocks) {
                    lost.push(owner.uid.clone());
                }
            }
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
        }
        if node.owners.is_empty() && !node.deleting {
            self.nodes.remove(&node.uid);
        } else {
            self.nodes.insert(node.uid.clone(), node);
        }
        lost
    }

    /// Removes a node; returns its owners and its dependents.
    pub(super) fn remove(&mut self, uid: &str) -> (Vec<String>, Vec<String>) {
        let owners = self.nodes.remove(uid).map(|node| node.owners).unwrap_or_default();
        let owners: Vec<String> = owners.into_iter().map(|owner| owner.uid).collect();
        for owner in &owners {
            let emptied = self.dependents.get_mut(owner).is_some_and(|set| {
                set.remove(uid);
                set.is_empty()
            });
            if emptied {
                self.dependents.remove(owner);
            }
        }
        (owners, self.dependents(uid))
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<String> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The dependents that block the deletion of an owner.
    pub(super) fn blocking(&self, uid: &str) -> Vec<String> {
        let blocks = |dependent: &String| {
            self.nodes.get(dependent).is_some_and(|node| {
                node.owners.iter().any(|owner| owner.uid == uid && owner.blocks)
            })
        };
        self.dependents(uid).into_iter().filter(blocks).collect()
    }

    pub(super) fn of_table(&self, table: &str) -> Vec<String> {
        let nodes = self.nodes.values().filter(|node| &*node.resource.table == table);
        nodes.map(|node| node.uid.clone()).collect()
    }

    /// The objects with an owner of a kind.
    pub(super) fn owned_by_kind(&self, kind: &Resource) -> Vec<String> {
        let is_of_kind = |owner: &Owner| {
            owner.kind == kind.kind && group_version(&owner.api_version).0 == kind.group
        };
        let nodes = self.nodes.values().filter(|node| node.owners.iter().any(is_of_kind));
        nodes.map(|node| node.uid.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin;

    fn kind(kind: &str) -> Arc<Resource> {
        let mut all = builtin::all().into_iter();
        all.find(|resource| resource.kind == kind).expect("a built-in kind")
    }

    /// A Secret with a config map as owner.
    fn owned(uid: &str, owner: &str) -> Node {
        let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": owner}]);
        let metadata = json!({"uid": uid, "name": uid, "ownerReferences": owners});
        Node::of(&kind("Secret"), &json!({"metadata": metadata}))
    }

    /// Red by: dependents that are found through the node of their owner.
    // Requirement: AK-7
    #[test]
    fn the_end_of_an_owner_without_a_node_is_the_end_for_its_dependents() {
        let mut graph = Graph::default();
        graph.insert(owned("a", "o"));
        assert!(graph.get("o").is_none());
        assert_eq!(graph.owned_by_kind(&kind("ConfigMap")), ["a"]);
        assert_eq!(graph.owned_by_kind(&kind("Secret")), Vec::<String>::new());
        assert_eq!(graph.remove("o"), (Vec::new(), vec!["a".to_owned()]));
    }

    /// Red by: a node for every object, or none for one that lost its last owner.
    // Requirement: AK-7
    #[test]
    fn an_object_has_a_node_while_it_is_owned_or_deleted() {
        let mut graph = Graph::default();
        let bare = |more: Value| {
            let mut value = json!({"metadata": {"uid": "a", "name": "a"}});
            value["metadata"]
                .as_object_mut()
                .expect("metadata")
                .extend(more.as_object().expect("fields").clone());
            Node::of(&kind("Secret"), &value)
        };
        graph.insert(owned("a", "o"));
        assert_eq!(graph.insert(bare(json!({}))), ["o"], "the owner is looked at again");
        assert!(graph.get("a").is_none());
        graph.insert(bare(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
        assert!(graph.get("a").is_some());
    }
}
