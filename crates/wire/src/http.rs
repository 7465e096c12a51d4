//! The messages between an agent and the control plane: JSON over HTTP.
//!
//! ```text
//!   POST /v1/register               RegisterRequest ──▶ RegisterResponse
//!   POST /v1/nodes/{id}/heartbeat   HeartbeatRequest ─▶ HeartbeatResponse
//!   GET  /v1/nodes/{id}/events      a stream of server-sent events, each an AgentEvent
//!   POST /v1/nodes/{id}/leave       LeaveRequest ─────▶ 204
//! ```
//!
//! All but the first are called with the node's secret as bearer token. A refusal is a [`Problem`]
//! with a closed code. A registration with the same token, nonce and key gets the same answer, so
//! it can be retried. Both sides ignore unknown fields.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub const REGISTER_PATH: &str = "/v1/register";
/// The code for a node that is deregistered: its key is revoked, or it is unknown.
pub const CODE_KEY_REVOKED: &str = "key_revoked";
/// The media type of a [`Problem`].
pub const PROBLEM_TYPE: &str = "application/problem+json";
/// The media type of a stream of events.
pub const EVENTS_TYPE: &str = "text/event-stream";

pub fn heartbeat_path(node_id: &str) -> String {
    format!("/v1/nodes/{node_id}/heartbeat")
}

pub fn events_path(node_id: &str) -> String {
    format!("/v1/nodes/{node_id}/events")
}

pub fn leave_path(node_id: &str) -> String {
    format!("/v1/nodes/{node_id}/leave")
}

/// Whether the host of a URL is this computer by its very text: a name that happens to resolve to
/// it may resolve elsewhere the next time.
pub fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let address = bare.parse::<IpAddr>().map(|it| it.to_canonical());
    host == "localhost" || address.is_ok_and(|it| it.is_loopback())
}

/// A text that is sent, and never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, to send or to compare it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// A registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterRequest {
    /// The project to join.
    pub project_id: String,
    /// The resource of the node.
    pub resource_id: String,
    /// The bootstrap token.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub bootstrap_token: Secret,
    /// Chosen once by the agent, so that a retry is recognised.
    pub nonce: String,
    /// Its Ed25519 public key, in standard base64.
    pub public_key: String,
    /// The version of the agent.
    pub agent_version: String,
}

/// The response to a registration, the same for every retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterResponse {
    /// The id of the node.
    pub node_id: String,
    /// The bearer token of the node.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub node_secret: Secret,
    /// The heartbeat interval.
    pub heartbeat_ms: u64,
}

/// A heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatRequest {
    /// The newest snapshot of the mesh that the node applied.
    pub acknowledged: u64,
    /// The work in flight.
    pub in_flight: u64,
    /// Whether the node is draining.
    pub draining: bool,
    /// The version of the agent.
    pub agent_version: String,
}

/// The response to a heartbeat. It repeats what a broken stream may have lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatResponse {
    /// The newest snapshot of the mesh.
    pub snapshot: u64,
    /// Present if the node shall drain.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// Present if the node shall store this secret and call with it from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub node_secret: Option<Secret>,
}

/// Asks a node to drain and leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Drain {
    /// How long work in flight may still take.
    pub grace_ms: u64,
}

/// Deregisters a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaveRequest {
    /// The work that was not finished.
    pub in_flight: u64,
}

/// A message to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum AgentEvent {
    /// Drain and leave.
    Drain(Drain),
    /// The mesh changed; acknowledge it.
    Mesh {
        /// The newest snapshot.
        snapshot: u64,
    },
    /// A message of a newer version.
    #[serde(other)]
    Unknown,
}

/// A refusal as in RFC 9457.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The documentation page of the code.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The refusal in a few words.
    #[serde(default)]
    pub title: String,
    /// The status, repeated.
    #[serde(default)]
    pub status: u16,
    /// The closed code.
    #[serde(default)]
    pub code: String,
    /// The refusal in a sentence.
    #[serde(default)]
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use serde_json::{from_str, json, to_value};

    use super::*;

    // Requirement: HC-28
    #[test]
    fn only_literal_loopback_addresses_and_localhost_are_this_computer() {
        for host in ["127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        let others = ["0.0.0.0", "[::]", "10.0.0.1", "localhost.", "a.localhost", "127.1", ""];
        for host in others.into_iter().chain(["localhost.example", "127.0.0.1.example"]) {
            assert!(!is_loopback(host), "{host}");
        }
    }

    // Requirement: AG-7
    #[test]
    fn secrets_are_sent_and_never_printed() {
        let request = RegisterRequest {
            project_id: "p".into(),
            resource_id: "r".into(),
            bootstrap_token: Secret::new("ubt_canary"),
            nonce: "n".into(),
            public_key: "k".into(),
            agent_version: "v".into(),
        };
        assert!(!format!("{request:?}").contains("canary"));
        assert_eq!(to_value(&request).unwrap()["bootstrap_token"], "ubt_canary");
        let response = RegisterResponse {
            node_id: "n".into(),
            node_secret: Secret::new("canary"),
            heartbeat_ms: 1,
        };
        assert!(!format!("{response:?}").contains("canary"));
    }

    #[test]
    fn events_are_distinguished_by_their_type() {
        let drain = AgentEvent::Drain(Drain { grace_ms: 5 });
        assert_eq!(to_value(drain).unwrap(), json!({ "type": "drain", "grace_ms": 5 }));
        assert_eq!(from_str::<AgentEvent>(r#"{"type":"drain","grace_ms":5}"#).unwrap(), drain);
        let mesh = AgentEvent::Mesh { snapshot: 7 };
        assert_eq!(from_str::<AgentEvent>(r#"{"type":"mesh","snapshot":7}"#).unwrap(), mesh);
        let other = from_str::<AgentEvent>(r#"{"type":"party","snapshot":7}"#).unwrap();
        assert_eq!(other, AgentEvent::Unknown);
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let text = r#"{"snapshot":1,"weather":"fine"}"#;
        let expected = HeartbeatResponse { snapshot: 1, ..HeartbeatResponse::default() };
        assert_eq!(from_str::<HeartbeatResponse>(text).unwrap(), expected);
        let problem: Problem = from_str(r#"{"code":"token_revoked"}"#).unwrap();
        assert_eq!(problem.code, "token_revoked");
    }
}
