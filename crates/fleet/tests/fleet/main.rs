//! The shard over real gRPC: with synchronous and asynchronous providers, invalid data and no
//! responses.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod bad;
mod drain;
mod edges;
mod fake_provider;
mod hold;
mod shard_harness;
