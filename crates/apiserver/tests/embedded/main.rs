//! The server as its owner and its clients use it.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod admitting;
#[path = "../stage/asking.rs"]
mod asking;
mod client;
mod door;
mod expiring;
mod faults;
#[path = "../replay/hook.rs"]
mod hook;
mod leaving;
mod refused;
mod watching;

pub(crate) use asking::ask;
