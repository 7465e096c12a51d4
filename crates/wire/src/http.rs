//! What an agent and the control plane say to each other, over HTTP with JSON bodies.
//!
//! ```text
//!   POST /v1/register               RegisterRequest ──▶ RegisterResponse
//!   POST /v1/nodes/{id}/heartbeat   HeartbeatRequest ─▶ HeartbeatResponse
//!   GET  /v1/nodes/{id}/events      a stream of server-sent events, each an AgentEvent
//!   POST /v1/nodes/{id}/leave       LeaveRequest ─────▶ 204
//! ```
//!
//! All but the first are called with the node's secret as bearer. A refusal is a [`Problem`] with a
//! closed code. The same token, nonce and key are answered as the first time, so an answer that was
//! lost is asked for again. What either side does not know in a message it ignores.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where an agent registers.
pub const REGISTER_PATH: &str = "/v1/register";
/// The code that tells a node it is out of the mesh: its key is revoked, or it is unknown since.
pub const CODE_KEY_REVOKED: &str = "key_revoked";
/// The media type of a [`Problem`].
pub const PROBLEM_TYPE: &str = "application/problem+json";
/// The media type of a stream of events.
pub const EVENTS_TYPE: &str = "text/event-stream";

/// The path under which a node says that it lives.
pub fn heartbeat_path(node_id: &str) -> String {
    format!("/v1/nodes/{node_id}/heartbeat")
}

/// The path under which a node is told things.
pub fn events_path(node_id: &str) -> String {
    format!("/v1/nodes/{node_id}/events")
}

/// The path under which a node says that it leaves.
pub fn leave_path(node_id: &str) -> String {
    format!("/v1/nodes/{node_id}/leave")
}

/// A text that goes over the wire and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that must send or compare it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// What an agent registers with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterRequest {
    /// The project it believes to join.
    pub project_id: String,
    /// The resource it believes to be.
    pub resource_id: String,
    /// The bootstrap token.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub bootstrap_token: Secret,
    /// What it chose once, so that a repetition is recognised.
    pub nonce: String,
    /// Its Ed25519 public key, in standard base64.
    pub public_key: String,
    /// What it is.
    pub agent_version: String,
}

/// The answer to a registration, the same for each repetition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterResponse {
    /// Who it is from now on.
    pub node_id: String,
    /// What it calls with from now on.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub node_secret: Secret,
    /// How often it says that it lives.
    pub heartbeat_ms: u64,
}

/// A sign of life.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatRequest {
    /// The newest snapshot of the mesh it knows: its acknowledgement.
    pub acknowledged: u64,
    /// How much work it has in flight.
    pub in_flight: u64,
    /// Whether it is on its way out.
    pub draining: bool,
    /// What it is.
    pub agent_version: String,
}

/// The answer to a sign of life. It repeats what a lost stream may not have told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeartbeatResponse {
    /// The newest snapshot of the mesh.
    pub snapshot: u64,
    /// The order to leave, if there is one.
    #[serde(default)]
    pub drain: Option<Drain>,
}

/// The order to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Drain {
    /// How long work in flight may still take.
    pub grace_ms: u64,
}

/// What an agent says as its last word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaveRequest {
    /// How much work it could not finish.
    pub in_flight: u64,
}

/// What a node is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum AgentEvent {
    /// Leave.
    Drain(Drain),
    /// The mesh changed; acknowledge it.
    Mesh {
        /// The newest snapshot.
        snapshot: u64,
    },
    /// Something this version does not know.
    #[serde(other)]
    Unknown,
}

/// A refusal, as RFC 9457 writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// Where the code is explained.
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
    fn events_are_told_apart_by_their_type() {
        let drain = AgentEvent::Drain(Drain { grace_ms: 5 });
        assert_eq!(to_value(drain).unwrap(), json!({ "type": "drain", "grace_ms": 5 }));
        assert_eq!(from_str::<AgentEvent>(r#"{"type":"drain","grace_ms":5}"#).unwrap(), drain);
        let mesh = AgentEvent::Mesh { snapshot: 7 };
        assert_eq!(from_str::<AgentEvent>(r#"{"type":"mesh","snapshot":7}"#).unwrap(), mesh);
        let other = from_str::<AgentEvent>(r#"{"type":"party","snapshot":7}"#).unwrap();
        assert_eq!(other, AgentEvent::Unknown);
    }

    #[test]
    fn what_is_not_known_is_ignored() {
        let told = r#"{"snapshot":1,"weather":"fine"}"#;
        let expected = HeartbeatResponse { snapshot: 1, drain: None };
        assert_eq!(from_str::<HeartbeatResponse>(told).unwrap(), expected);
        let problem: Problem = from_str(r#"{"code":"token_revoked"}"#).unwrap();
        assert_eq!(problem.code, "token_revoked");
    }
}
