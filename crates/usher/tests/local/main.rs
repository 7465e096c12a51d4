//! The local world on a real disk, with real processes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod crowd;
#[path = "../../../agent/tests/plane/mod.rs"]
mod plane;
mod processes;
#[path = "../walk/running.rs"]
mod running;
mod stage;
mod substrate;
mod yard;
