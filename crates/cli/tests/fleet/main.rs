//! The shard over real gRPC: with providers that are done at once or late, that lie, that are
//! silent, and that are killed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod apart;
mod bad;
#[expect(dead_code, reason = "shared with the walks")]
#[path = "../walk/caller.rs"]
mod caller;
mod drain;
mod edges;
#[path = "../walk/figures.rs"]
mod figures;
mod hold;
mod home;
#[expect(dead_code, reason = "shared with the walks")]
#[path = "../walk/house.rs"]
mod house;
mod kills;
mod pair;
mod plant;
#[path = "../walk/port.rs"]
mod port;
#[expect(dead_code, reason = "shared with the walks")]
#[path = "../walk/premises.rs"]
mod premises;
#[path = "../walk/running.rs"]
mod running;
mod yard;
