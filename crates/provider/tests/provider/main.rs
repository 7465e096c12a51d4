//! Providers asked over the wire, started as processes, and killed.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot begin has failed"
)]

mod asked;
mod certified;
mod killed;
mod named;
mod stage;
