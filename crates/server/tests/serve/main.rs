//! The parts of a server, each against a store of its own.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod bed;
mod fleet;
mod guard;
mod mesh;
mod worker;
