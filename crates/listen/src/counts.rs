//! What happened to connections, as numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// By the peer, or by both after the last answer.
    Ended,
    /// No complete request head in time, the TLS handshake included.
    Header,
    /// No complete request body in time.
    Body,
    /// No further request in time.
    Idle,
    /// The peer does not read its answer.
    Write,
    /// It waited, and gave way to a newer one.
    Evicted,
    /// A limit was reached and no connection could give way.
    Refused,
    /// The TLS handshake failed.
    Handshake,
    /// The connection broke or the peer violated the protocol.
    Failed,
    /// The server stopped.
    Stopped,
}

impl CloseReason {
    pub const ALL: [Self; 10] = [
        Self::Ended,
        Self::Header,
        Self::Body,
        Self::Idle,
        Self::Write,
        Self::Evicted,
        Self::Refused,
        Self::Handshake,
        Self::Failed,
        Self::Stopped,
    ];

    /// The label in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Header => "header",
            Self::Body => "body",
            Self::Idle => "idle",
            Self::Write => "write",
            Self::Evicted => "evicted",
            Self::Refused => "refused",
            Self::Handshake => "handshake",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// The counters of one listener.
#[derive(Debug, Default)]
pub struct Counts {
    open: AtomicU64,
    closed: [AtomicU64; CloseReason::ALL.len()],
    certificates_loaded: AtomicU64,
    certificates_failed: AtomicU64,
}

impl Counts {
    /// Connections that are open now.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections that were closed for this reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].load(Ordering::Relaxed)
    }

    /// Changed certificates that were loaded.
    pub fn certificates_loaded(&self) -> u64 {
        self.certificates_loaded.load(Ordering::Relaxed)
    }

    /// Changed certificates that could not be loaded.
    pub fn certificates_failed(&self) -> u64 {
        self.certificates_failed.load(Ordering::Relaxed)
    }

    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn close(&self, reason: CloseReason) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.closed[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn load_certificate(&self, loaded: bool) {
        let counter = if loaded { &self.certificates_loaded } else { &self.certificates_failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
