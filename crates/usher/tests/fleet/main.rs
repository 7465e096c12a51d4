//! Shards and providers of the real binary: in separate processes, in one, and killed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod apart;
#[expect(dead_code, reason = "shared with the walks")]
#[path = "../walk/caller.rs"]
mod caller;
mod home;
mod kills;
mod pair;
#[path = "../walk/port.rs"]
mod port;
#[path = "../walk/running.rs"]
mod running;
#[path = "../walk/sizes.rs"]
mod sizes;
#[expect(dead_code, reason = "shared with the walks")]
#[path = "../walk/test_env.rs"]
mod test_env;
#[expect(dead_code, reason = "shared with the walks")]
#[path = "../walk/test_server.rs"]
mod test_server;
