//! Refusals of the HTTP layer itself: what is wrong with a request before a port is called.

use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    #[error("the request has no valid bearer token")]
    Unauthenticated,
    /// The node is deregistered or unknown.
    #[error("the key of the node is revoked")]
    KeyRevoked,
    /// The settings of the server require a certificate of the client CA.
    #[error("this route needs a client certificate")]
    CertificateRequired,
    #[error("role \"{role}\" is not allowed to do this: it needs {needed}")]
    Forbidden { role: &'static str, needed: &'static str },
    #[error("there is no such path")]
    RouteNotFound,
    #[error("the path does not support this method")]
    MethodNotAllowed,
    #[error("the body is larger than {max} bytes")]
    BodyTooLarge { max: usize },
    #[error("the body did not arrive in time")]
    BodyTimeout,
    #[error("invalid body: {why}")]
    BodyInvalid { why: String },
    #[error("the content type is not application/json")]
    ContentTypeUnsupported,
    #[error("invalid query: {why}")]
    QueryInvalid { why: String },
    #[error("the path is not UTF-8")]
    PathInvalid,
    /// The text is shortened.
    #[error("\"{text}\" is not a cursor of this list")]
    CursorInvalid { text: String },
    #[error("cursor \"{text}\" has expired: the log begins later")]
    CursorForgotten { text: String },
    #[error("{thing} \"{what}\" not found")]
    NotFound {
        thing: Thing,
        /// Shortened.
        what: String,
    },
    #[error("{what} is still referenced")]
    StillReferenced { what: String },
    #[error("cluster \"{cluster}\" is served by shard \"{shard}\"")]
    ClusterServed { cluster: String, shard: String },
    #[error("there are several shards: name the one that serves cluster \"{cluster}\"")]
    ShardRequired { cluster: String },
    #[error("\"{what}\" is already published with different content")]
    VersionPublished { what: String },
    #[error("\"{what}\" cannot be published: {why}")]
    BlueprintUnsound {
        what: String,
        /// The first finding.
        why: String,
    },
    #[error("this server lacks key {key} of the installation: restore its key file")]
    KeyMissing { key: String },
    #[error("cannot rotate: the current key is {current}")]
    KeyChanged { current: String },
    #[error("cannot rotate: key {previous} is still named by {by}")]
    KeyInUse {
        previous: String,
        /// What names it, and how that ends.
        by: String,
    },
    /// The file and what to do are in the text.
    #[error("{why}")]
    KeyFileReadOnly { why: String },
    #[error("the receipt was changed, or another installation issued it")]
    ReceiptInvalid,
    #[error("unavailable: {what} does not answer")]
    Unavailable { what: String },
    #[error("internal error; the server's log has details under the request id")]
    Internal,
}

/// Kinds whose absence the domain does not report itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    Project,
    Tenancy,
    Node,
    OperatorToken,
    World,
    Machine,
    Shard,
    Demand,
}

impl std::fmt::Display for Thing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::Tenancy => "tenancy resource",
            Self::Node => "node",
            Self::OperatorToken => "operator token",
            Self::World => "world",
            Self::Machine => "machine",
            Self::Shard => "shard",
            Self::Demand => "demand of cluster",
        })
    }
}

impl Thing {
    pub const fn code(self) -> &'static str {
        match self {
            Self::Project => "project_not_found",
            Self::Tenancy => "tenancy_not_found",
            Self::Node => "node_not_found",
            Self::OperatorToken => "operator_token_not_found",
            Self::World => "world_not_found",
            Self::Machine => "machine_not_found",
            Self::Shard => "shard_not_found",
            Self::Demand => "demand_not_found",
        }
    }
}

impl Refusal {
    /// The stable code on the wire, and the name of its page in `docs/codes`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::KeyRevoked => "key_revoked",
            Self::CertificateRequired => "client_certificate_required",
            Self::Forbidden { .. } => "forbidden",
            Self::RouteNotFound => "route_not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTimeout => "body_timeout",
            Self::BodyInvalid { .. } => "body_invalid",
            Self::ContentTypeUnsupported => "content_type_unsupported",
            Self::QueryInvalid { .. } => "query_invalid",
            Self::PathInvalid => "path_invalid",
            Self::CursorInvalid { .. } => "cursor_invalid",
            Self::CursorForgotten { .. } => "cursor_forgotten",
            Self::NotFound { thing, .. } => thing.code(),
            Self::StillReferenced { .. } => "still_referenced",
            Self::ClusterServed { .. } => "cluster_served",
            Self::ShardRequired { .. } => "shard_required",
            Self::VersionPublished { .. } => "version_published",
            Self::BlueprintUnsound { .. } => "blueprint_unsound",
            Self::KeyMissing { .. } => "key_missing",
            Self::KeyChanged { .. } => "key_changed",
            Self::KeyInUse { .. } => "key_in_use",
            Self::KeyFileReadOnly { .. } => "key_file_read_only",
            Self::ReceiptInvalid => "receipt_invalid",
            Self::Unavailable { .. } => "unavailable",
            Self::Internal => "internal",
        }
    }
}
