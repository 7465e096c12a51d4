//! The API against ports in memory.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod agents;
mod bodies;
mod document;
mod events;
mod fake;
mod fleet;
mod fuzz;
mod listings;
mod refusals;
mod requests;
mod rights;
mod secrets;
mod service;
mod test_api;
