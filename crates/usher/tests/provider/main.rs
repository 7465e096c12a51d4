//! `usher provider` as an operator runs it: real hosts, real nodes, and a provider that is killed.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot begin has failed")]

mod local;
#[path = "../walk/port.rs"]
mod port;
mod test_provider;
