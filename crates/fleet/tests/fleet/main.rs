//! The shard over real gRPC: with providers that are done at once or late, that lie, and that are
//! silent.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod bad;
mod drain;
mod edges;
mod hold;
mod plant;
mod yard;
