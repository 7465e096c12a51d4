//! The built-in resources.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{Origin, Resource};
use crate::meta::name::NameRule;

/// A built-in resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Builtin {
    Namespace,
    ConfigMap,
    Secret,
    ServiceAccount,
    /// `events` of the core group.
    Event,
    /// `events` of `events.k8s.io`: the same objects with different field names.
    RegardingEvent,
    Lease,
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
    CustomResourceDefinition,
    ValidatingWebhookConfiguration,
    ApiService,
}

/// A row of the table of built-in resources.
struct Row {
    builtin: Builtin,
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    /// Its structural schema, without `metadata`.
    schema: &'static str,
}

const RBAC: &str = "rbac.authorization.k8s.io";

const ROWS: [Row; 14] = [
    row(Builtin::ConfigMap, "", "configmaps", "ConfigMap", include_str!("schemas/configmap.json"))
        .short(&["cm"]),
    row(Builtin::Event, "", "events", "Event", include_str!("schemas/event.json")).short(&["ev"]),
    row(Builtin::Namespace, "", "namespaces", "Namespace", include_str!("schemas/namespace.json"))
        .short(&["ns"])
        .cluster(),
    row(Builtin::Secret, "", "secrets", "Secret", include_str!("schemas/secret.json")),
    row(
        Builtin::ServiceAccount,
        "",
        "serviceaccounts",
        "ServiceAccount",
        include_str!("schemas/serviceaccount.json"),
    )
    .short(&["sa"]),
    row(
        Builtin::ApiService,
        "apiregistration.k8s.io",
        "apiservices",
        "APIService",
        include_str!("schemas/apiservice.json"),
    )
    .cluster()
    .categories(&["api-extensions"]),
    row(
        Builtin::CustomResourceDefinition,
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        include_str!("schemas/crd.json"),
    )
    .short(&["crd", "crds"])
    .cluster()
    .categories(&["api-extensions"]),
    row(
        Builtin::ValidatingWebhookConfiguration,
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        include_str!("schemas/validatingwebhookconfiguration.json"),
    )
    .cluster()
    .categories(&["api-extensions"]),
    row(
        Builtin::RegardingEvent,
        "events.k8s.io",
        "events",
        "Event",
        include_str!("schemas/regardingevent.json"),
    )
    .short(&["ev"]),
    row(
        Builtin::Lease,
        "coordination.k8s.io",
        "leases",
        "Lease",
        include_str!("schemas/lease.json"),
    ),
    row(
        Builtin::ClusterRole,
        RBAC,
        "clusterroles",
        "ClusterRole",
        include_str!("schemas/role.json"),
    )
    .cluster(),
    row(
        Builtin::ClusterRoleBinding,
        RBAC,
        "clusterrolebindings",
        "ClusterRoleBinding",
        include_str!("schemas/rolebinding.json"),
    )
    .cluster(),
    row(Builtin::Role, RBAC, "roles", "Role", include_str!("schemas/role.json")),
    row(
        Builtin::RoleBinding,
        RBAC,
        "rolebindings",
        "RoleBinding",
        include_str!("schemas/rolebinding.json"),
    ),
];

const fn row(
    builtin: Builtin,
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    schema: &'static str,
) -> Row {
    Row { builtin, group, plural, kind, short: &[], categories: &[], namespaced: true, schema }
}

impl Row {
    const fn short(mut self, short: &'static [&'static str]) -> Self {
        self.short = short;
        self
    }

    const fn categories(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    const fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }
}

/// Every built-in resource, in the order of the table.
pub(crate) fn all() -> Vec<Arc<Resource>> {
    ROWS.iter().map(|row| Arc::new(resource(row))).collect()
}

/// Whether the path or kind of a resource is that of a built-in one, in any version.
pub(crate) fn is_shadow(resource: &Resource) -> bool {
    ROWS.iter().any(|row| {
        row.group == resource.group && (row.plural == resource.plural || row.kind == resource.kind)
    })
}

fn resource(row: &Row) -> Resource {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let table = if row.group.is_empty() || row.builtin == Builtin::RegardingEvent {
        row.plural.to_owned()
    } else {
        format!("{}.{}", row.plural, row.group)
    };
    Resource {
        group: row.group.to_owned(),
        version: "v1".to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        short_names: owned(row.short),
        categories: owned(row.categories),
        namespaced: row.namespaced,
        table: Arc::from(table),
        origin: Origin::Builtin(row.builtin),
    }
}

impl Builtin {
    /// The schema of the kind without `metadata`.
    pub(crate) fn schema(self) -> &'static Value {
        static SCHEMAS: OnceLock<Vec<(Builtin, Value)>> = OnceLock::new();
        static NONE: Value = Value::Null;
        let schemas = SCHEMAS.get_or_init(|| {
            let parse = |row: &Row| serde_json::from_str(row.schema).unwrap_or_default();
            ROWS.iter().map(|row| (row.builtin, parse(row))).collect()
        });
        schemas.iter().find(|(kind, _)| *kind == self).map_or(&NONE, |(_, schema)| schema)
    }

    /// Whether `/status` is served.
    pub(crate) fn has_status(self) -> bool {
        matches!(self, Self::Namespace | Self::CustomResourceDefinition | Self::ApiService)
    }

    /// Whether a write without a resourceVersion is unconditional.
    pub(crate) fn unconditional(self) -> bool {
        !matches!(
            self,
            Self::Lease
                | Self::CustomResourceDefinition
                | Self::ValidatingWebhookConfiguration
                | Self::ApiService
        )
    }

    /// Whether a PUT of a missing object creates it.
    pub(crate) fn created_by_update(self) -> bool {
        matches!(
            self,
            Self::Event
                | Self::RegardingEvent
                | Self::Lease
                | Self::Role
                | Self::RoleBinding
                | Self::ClusterRole
                | Self::ClusterRoleBinding
        )
    }

    /// Whether objects of the kind have a generation.
    pub(crate) fn has_generation(self) -> bool {
        matches!(self, Self::CustomResourceDefinition | Self::ValidatingWebhookConfiguration)
    }

    /// Whether a deletion returns the object.
    pub(crate) fn deletion_returns_object(self) -> bool {
        matches!(self, Self::Namespace | Self::ServiceAccount)
    }

    /// The validation rule of its names.
    pub(crate) fn name_rule(self) -> NameRule {
        match self {
            Self::Namespace => NameRule::Label,
            Self::Role | Self::RoleBinding | Self::ClusterRole | Self::ClusterRoleBinding => {
                NameRule::PathSegment
            }
            Self::ConfigMap
            | Self::Secret
            | Self::ServiceAccount
            | Self::Event
            | Self::RegardingEvent
            | Self::Lease
            | Self::CustomResourceDefinition
            | Self::ValidatingWebhookConfiguration
            | Self::ApiService => NameRule::Subdomain,
        }
    }
}
