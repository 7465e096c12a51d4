//! Settings of the listener: limits, deadlines, certificates.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::span::Span;

const HOUR: u64 = 3_600;

/// Limits and deadlines of connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connections {
    /// The most connections that have not shown a token.
    pub unauthenticated: u32,
    /// Of these, the most from one address.
    pub per_peer: u32,
    /// How long a request head may take, the TLS handshake included.
    pub header_deadline: Span,
    /// How long a request body may take.
    pub body_deadline: Span,
    /// How long a connection may be idle.
    pub idle_deadline: Span,
    /// The same after a request with a valid token.
    pub idle_deadline_authenticated: Span,
    /// How long a peer may read nothing of its answer.
    pub write_deadline: Span,
}

/// Files of the certificates; empty is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    pub certificate: String,
    pub key: String,
    /// The CA of the certificates that agents must show.
    pub client_ca: String,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            unauthenticated: 1_024,
            per_peer: 256,
            header_deadline: Span::secs(10),
            body_deadline: Span::secs(10),
            idle_deadline: Span::secs(10),
            idle_deadline_authenticated: Span::secs(75),
            write_deadline: Span::secs(30),
        }
    }
}

impl Connections {
    /// Every duration with its minimum, and its maximum in seconds.
    pub(super) const fn spans(&self) -> [(&'static str, Span, Duration, u64); 5] {
        let min = Duration::from_millis(100);
        [
            ("connections.header_deadline", self.header_deadline, min, HOUR),
            ("connections.body_deadline", self.body_deadline, min, HOUR),
            ("connections.idle_deadline", self.idle_deadline, min, HOUR),
            (
                "connections.idle_deadline_authenticated",
                self.idle_deadline_authenticated,
                min,
                HOUR,
            ),
            ("connections.write_deadline", self.write_deadline, min, HOUR),
        ]
    }

    /// Every number with its minimum and maximum.
    pub(super) const fn numbers(&self) -> [(&'static str, u32, u32, u32); 2] {
        [
            ("connections.unauthenticated", self.unauthenticated, 1, 1_000_000),
            ("connections.per_peer", self.per_peer, 1, 1_000_000),
        ]
    }
}
