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
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
    ApiService,
    Service,
    Endpoints,
    EndpointSlice,
    Review(Review),
}

/// A kind of question: it is answered and never stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Review {
    /// Who asks.
    SelfSubject,
    /// Whether the asking user may do something.
    SelfSubjectAccess,
    /// What the asking user may do in a namespace.
    SelfSubjectRules,
    /// Whether a user may do something.
    SubjectAccess,
    /// Whether a user may do something in a namespace.
    LocalSubjectAccess,
    /// Whose a token is.
    Token,
    /// `serviceaccounts/token`: a new token of a service account.
    TokenRequest,
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
const ADMISSION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

const ROWS: [Row; 26] = [
    row(Builtin::ConfigMap, "", "configmaps", "ConfigMap", include_str!("schemas/configmap.json"))
        .short(&["cm"]),
    row(Builtin::Endpoints, "", "endpoints", "Endpoints", include_str!("schemas/endpoints.json"))
        .short(&["ep"]),
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
    row(Builtin::Service, "", "services", "Service", include_str!("schemas/service.json"))
        .short(&["svc"])
        .categories(&["all"]),
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
        Builtin::ValidatingAdmissionPolicy,
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        include_str!("schemas/validatingadmissionpolicy.json"),
    )
    .cluster()
    .categories(&["api-extensions"]),
    row(
        Builtin::ValidatingAdmissionPolicyBinding,
        ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        include_str!("schemas/validatingadmissionpolicybinding.json"),
    )
    .cluster()
    .categories(&["api-extensions"]),
    row(
        Builtin::ValidatingWebhookConfiguration,
        ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        include_str!("schemas/validatingwebhookconfiguration.json"),
    )
    .cluster()
    .categories(&["api-extensions"]),
    row(
        Builtin::EndpointSlice,
        "discovery.k8s.io",
        "endpointslices",
        "EndpointSlice",
        include_str!("schemas/endpointslice.json"),
    ),
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
    row(
        Builtin::Review(Review::SelfSubject),
        AUTHENTICATION,
        "selfsubjectreviews",
        "SelfSubjectReview",
        include_str!("schemas/selfsubjectreview.json"),
    )
    .cluster(),
    row(
        Builtin::Review(Review::Token),
        AUTHENTICATION,
        "tokenreviews",
        "TokenReview",
        include_str!("schemas/tokenreview.json"),
    )
    .cluster(),
    TOKEN_REQUEST,
    row(
        Builtin::Review(Review::LocalSubjectAccess),
        AUTHORIZATION,
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        include_str!("schemas/subjectaccessreview.json"),
    ),
    row(
        Builtin::Review(Review::SelfSubjectAccess),
        AUTHORIZATION,
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        include_str!("schemas/selfsubjectaccessreview.json"),
    )
    .cluster(),
    row(
        Builtin::Review(Review::SelfSubjectRules),
        AUTHORIZATION,
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        include_str!("schemas/selfsubjectrulesreview.json"),
    )
    .cluster(),
    row(
        Builtin::Review(Review::SubjectAccess),
        AUTHORIZATION,
        "subjectaccessreviews",
        "SubjectAccessReview",
        include_str!("schemas/subjectaccessreview.json"),
    )
    .cluster(),
];

/// Served as `serviceaccounts/token` only, so it has no resource of its own.
const TOKEN_REQUEST: Row = row(
    Builtin::Review(Review::TokenRequest),
    AUTHENTICATION,
    "serviceaccounts",
    "TokenRequest",
    include_str!("schemas/tokenrequest.json"),
);

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
    let own = ROWS.iter().filter(|row| row.builtin != Builtin::Review(Review::TokenRequest));
    own.map(|row| Arc::new(resource(row))).collect()
}

/// The kind of `serviceaccounts/token`.
pub(crate) fn token_request() -> Arc<Resource> {
    Arc::new(resource(&TOKEN_REQUEST))
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
        matches!(
            self,
            Self::Namespace | Self::CustomResourceDefinition | Self::ApiService | Self::Service
        )
    }

    /// Whether it is a question, which is not stored.
    pub(crate) fn is_review(self) -> bool {
        matches!(self, Self::Review(_))
    }

    /// Whether only the server writes it.
    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Self::ApiService)
    }

    /// Whether a write without a resourceVersion is unconditional.
    pub(crate) fn unconditional(self) -> bool {
        !matches!(
            self,
            Self::Lease
                | Self::CustomResourceDefinition
                | Self::ValidatingAdmissionPolicy
                | Self::ValidatingAdmissionPolicyBinding
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
                | Self::Endpoints
                | Self::EndpointSlice
        )
    }

    /// Whether objects of the kind have a generation.
    pub(crate) fn has_generation(self) -> bool {
        matches!(
            self,
            Self::CustomResourceDefinition
                | Self::EndpointSlice
                | Self::ValidatingAdmissionPolicy
                | Self::ValidatingAdmissionPolicyBinding
                | Self::ValidatingWebhookConfiguration
        )
    }

    /// Whether a deletion returns the object.
    pub(crate) fn deletion_returns_object(self) -> bool {
        matches!(self, Self::Namespace | Self::ServiceAccount | Self::Service)
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
            | Self::ValidatingAdmissionPolicy
            | Self::ValidatingAdmissionPolicyBinding
            | Self::ValidatingWebhookConfiguration
            | Self::ApiService
            | Self::Endpoints
            | Self::EndpointSlice
            | Self::Review(_) => NameRule::Subdomain,
            Self::Service => NameRule::Label1035,
        }
    }
}
