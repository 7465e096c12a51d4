//! Refusals of the HTTP layer itself: what is wrong with a request before a port is called.

use thiserror::Error;
use usher_kernel::coded;

coded! {
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        #[error("the request has no valid bearer token")]
        Unauthenticated = "unauthenticated",
        /// The node is deregistered or unknown.
        #[error("the key of the node is revoked")]
        KeyRevoked = "key_revoked",
        /// The settings of the server require a certificate of the client CA.
        #[error("this route needs a client certificate")]
        CertificateRequired = "client_certificate_required",
        #[error("role \"{role}\" is not allowed to do this: it needs {needed}")]
        Forbidden { role: &'static str, needed: &'static str } = "forbidden",
        #[error("there is no such path")]
        RouteNotFound = "route_not_found",
        #[error("the path does not support this method")]
        MethodNotAllowed = "method_not_allowed",
        #[error("the body is larger than {max} bytes")]
        BodyTooLarge { max: usize } = "body_too_large",
        #[error("the body did not arrive in time")]
        BodyTimeout = "body_timeout",
        #[error("invalid body: {why}")]
        BodyInvalid { why: String } = "body_invalid",
        #[error("the content type is not application/json")]
        ContentTypeUnsupported = "content_type_unsupported",
        #[error("invalid query: {why}")]
        QueryInvalid { why: String } = "query_invalid",
        #[error("the path is not UTF-8")]
        PathInvalid = "path_invalid",
        /// The text is shortened.
        #[error("\"{text}\" is not a cursor of this list")]
        CursorInvalid { text: String } = "cursor_invalid",
        #[error("cursor \"{text}\" has expired: the log begins later")]
        CursorForgotten { text: String } = "cursor_forgotten",
        #[error("{thing} \"{what}\" not found")]
        NotFound {
            thing: Thing,
            /// Shortened.
            what: String,
        } = { thing => thing.code() },
        #[error("{what} is still referenced")]
        StillReferenced { what: String } = "still_referenced",
        #[error("cluster \"{cluster}\" is served by shard \"{shard}\"")]
        ClusterServed { cluster: String, shard: String } = "cluster_served",
        #[error("there are several shards: name the one that serves cluster \"{cluster}\"")]
        ShardRequired { cluster: String } = "shard_required",
        #[error("\"{what}\" is already published with different content")]
        VersionPublished { what: String } = "version_published",
        #[error("\"{what}\" cannot be published: {why}")]
        BlueprintUnsound {
            what: String,
            /// The first finding.
            why: String,
        } = "blueprint_unsound",
        #[error("this server lacks key {key} of the installation: restore its key file")]
        KeyMissing { key: String } = "key_missing",
        #[error("cannot rotate: the current key is {current}")]
        KeyChanged { current: String } = "key_changed",
        #[error("cannot rotate: key {previous} is still named by {by}")]
        KeyInUse {
            previous: String,
            /// What names it, and how that ends.
            by: String,
        } = "key_in_use",
        /// The file and what to do are in the text.
        #[error("{why}")]
        KeyFileReadOnly { why: String } = "key_file_read_only",
        #[error("the receipt was changed, or another installation issued it")]
        ReceiptInvalid = "receipt_invalid",
        #[error("unavailable: {what} does not answer")]
        Unavailable { what: String } = "unavailable",
        #[error("internal error; the server's log has details under the request id")]
        Internal = "internal",
    }
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
