//! The resources: built-in ones, and one per served version of every CRD.

pub(crate) mod builtin;
pub(crate) mod custom;
mod registry;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::meta::name::NameRule;
use crate::status;
pub(crate) use builtin::{Builtin, Review};
pub(crate) use custom::Custom;
pub(crate) use registry::{Kinds, Registry};

/// One resource in one version.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// The table of its objects: versions and aliases of one resource share it.
    pub(crate) table: Arc<str>,
    pub(crate) origin: Origin,
}

/// Where a resource comes from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// Built in.
    Builtin(Builtin),
    /// A CRD.
    Custom(Arc<Custom>),
}

impl Resource {
    /// `plural.group`, or the plural alone in the core group.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            return self.plural.clone();
        }
        format!("{}.{}", self.plural, self.group)
    }

    /// `group/version`, or the version alone in the core group.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// The `details` of a `Status` about an object of this resource.
    pub(crate) fn details(&self, name: &str) -> Value {
        status::details(&self.group, &self.plural, name)
    }

    /// The key of an object.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Arc<str> {
        if self.namespaced { Arc::from(format!("{namespace}/{name}")) } else { Arc::from(name) }
    }

    /// The key prefix of a namespace; empty for all namespaces.
    pub(crate) fn prefix(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            return format!("{namespace}/");
        }
        String::new()
    }

    /// Its names, in the format of a CRD.
    pub(crate) fn names(&self) -> Value {
        json!({
            "plural": self.plural,
            "singular": self.singular,
            "shortNames": self.short_names,
            "kind": self.kind,
            "listKind": self.list_kind,
        })
    }

    pub(crate) fn custom(&self) -> Option<&Arc<Custom>> {
        match &self.origin {
            Origin::Custom(custom) => Some(custom),
            Origin::Builtin(_) => None,
        }
    }

    pub(crate) fn builtin(&self) -> Option<Builtin> {
        match &self.origin {
            Origin::Builtin(builtin) => Some(*builtin),
            Origin::Custom(_) => None,
        }
    }

    pub(crate) fn is_builtin(&self, wanted: Builtin) -> bool {
        self.builtin() == Some(wanted)
    }

    /// Whether its objects are questions, which are not stored.
    pub(crate) fn is_review(&self) -> bool {
        self.builtin().is_some_and(Builtin::is_review)
    }

    /// Whether `/status` is served.
    pub(crate) fn has_status(&self) -> bool {
        match &self.origin {
            Origin::Custom(custom) => custom.status,
            Origin::Builtin(builtin) => builtin.has_status(),
        }
    }

    /// The validation rule of its names.
    pub(crate) fn name_rule(&self) -> NameRule {
        match &self.origin {
            Origin::Custom(_) => NameRule::Subdomain,
            Origin::Builtin(builtin) => builtin.name_rule(),
        }
    }

    /// The etcd key of the real server; it appears in messages.
    pub(crate) fn storage_key(&self, namespace: &str, name: &str) -> String {
        let group = if self.custom().is_some() || self.group == "apiextensions.k8s.io" {
            format!("{}/", self.group)
        } else {
            String::new()
        };
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        format!("/registry/{group}{}/{place}{name}", self.plural)
    }
}

/// `group/version`, or the version alone in the core group.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The group and version of an `apiVersion`.
pub(crate) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests;
