//! End-to-end tests with the real binary: real nodes enrol and leave.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

#[path = "../../../api/tests/api/requests.rs"]
mod asked;
mod caller;
mod fake_agents;
mod flood;
mod fuzz;
mod keys;
mod kills;
mod many;
mod order;
mod port;
mod presence;
mod refusals;
mod rest;
mod runbook;
mod running;
mod secured;
mod servers;
mod sizes;
mod tenancy;
mod test_cluster;
mod test_env;
mod test_server;
mod together;
mod trouble;
mod walks;
