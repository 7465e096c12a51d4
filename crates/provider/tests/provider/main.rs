//! Providers over gRPC, as processes, and killed.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot begin has failed"
)]

mod conformance;
mod crash;
mod kit;
mod permissions;
mod server;
