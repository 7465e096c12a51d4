//! The border's own closed set of refusals: what is wrong with a request before anybody is asked.

use thiserror::Error;

/// Why a request is refused at the border.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No token came with it, or a wrong one.
    #[error("cannot let the request in: it has no valid bearer token")]
    Unauthenticated,
    /// The node's key was revoked, or nobody knows the node.
    #[error("cannot let the node in: its key is revoked")]
    KeyRevoked,
    /// The caller's role does not allow it.
    #[error("cannot do this as \"{role}\": it takes \"{needed}\"")]
    Forbidden {
        /// What the caller is.
        role: &'static str,
        /// What it takes.
        needed: &'static str,
    },
    /// There is no such path.
    #[error("cannot find this path")]
    RouteNotFound,
    /// The path knows no such method.
    #[error("cannot use this method on this path")]
    MethodNotAllowed,
    /// The body is larger than it may be.
    #[error("cannot read the body: it is larger than {max} bytes")]
    BodyTooLarge {
        /// How large it may be.
        max: usize,
    },
    /// The body is not JSON, or not of the expected shape.
    #[error("cannot read the body: {why}")]
    BodyInvalid {
        /// What is wrong with it, and where.
        why: String,
    },
    /// The body has another media type.
    #[error("cannot read the body: its content type is not application/json")]
    ContentTypeUnsupported,
    /// The query cannot be read.
    #[error("cannot read the query: {why}")]
    QueryInvalid {
        /// What is wrong with it.
        why: String,
    },
    /// The path is no text.
    #[error("cannot read the path: it is not UTF-8")]
    PathInvalid,
    /// The text is no place in a listing or in the log.
    #[error("cannot go on after \"{text}\"")]
    CursorInvalid {
        /// The offending text, shortened.
        text: String,
    },
    /// The place in the log was forgotten.
    #[error("cannot go on after \"{text}\": the log begins later")]
    CursorForgotten {
        /// The place.
        text: String,
    },
    /// There is no such thing.
    #[error("cannot find {thing} \"{what}\"")]
    NotFound {
        /// What kind of thing.
        thing: Thing,
        /// What was asked for, shortened.
        what: String,
    },
    /// Something refers to it.
    #[error("cannot remove {what}: something refers to it")]
    StillReferenced {
        /// What was to be removed.
        what: String,
    },
    /// Another shard serves the cluster.
    #[error("cannot hear cluster \"{cluster}\" for another shard: shard \"{shard}\" serves it")]
    ClusterServed {
        /// The cluster.
        cluster: String,
        /// Who serves it.
        shard: String,
    },
    /// Nobody said which shard is meant, and there are several.
    #[error("cannot tell which shard serves cluster \"{cluster}\": there are several")]
    ShardRequired {
        /// The cluster.
        cluster: String,
    },
    /// The version was published with another content.
    #[error("cannot publish \"{what}\": it was published with another content")]
    VersionPublished {
        /// Which one.
        what: String,
    },
    /// The bundle would not work.
    #[error("cannot publish \"{what}\": {why}")]
    BlueprintUnsound {
        /// Which one.
        what: String,
        /// The first thing that is wrong.
        why: String,
    },
    /// Somebody who is needed does not answer.
    #[error("cannot answer now: {what} does not answer")]
    Unavailable {
        /// Who.
        what: String,
    },
    /// A bug showed itself.
    #[error("cannot answer: something is broken here; the log has the request id")]
    Internal,
}

/// What can be looked for and has no refusal of its own in the domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// A project.
    Project,
    /// A tenancy resource.
    Tenancy,
    /// A node.
    Node,
    /// An operator's token.
    OperatorToken,
    /// A world.
    World,
    /// A machine.
    Machine,
    /// A shard.
    Shard,
    /// The demand of a cluster.
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
    /// The code when there is none.
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
    /// The stable code on the wire and the name of the page that explains it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::KeyRevoked => "key_revoked",
            Self::Forbidden { .. } => "forbidden",
            Self::RouteNotFound => "route_not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTooLarge { .. } => "body_too_large",
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
            Self::Unavailable { .. } => "unavailable",
            Self::Internal => "internal",
        }
    }
}
