//! The components of a server, each with its own store.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod fleet;
mod guard;
mod mesh;
mod steps;
mod test_env;
mod worker;
