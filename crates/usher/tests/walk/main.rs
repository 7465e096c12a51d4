//! End-to-end tests with the real binary: real nodes enrol and leave.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

#[path = "../../../api/tests/api/requests.rs"]
mod asked;
mod caller;
mod crowd;
mod estate;
mod figures;
mod fuzz;
mod house;
mod kills;
mod many;
mod order;
mod port;
mod premises;
mod refusals;
mod rest;
mod runbook;
mod running;
mod servers;
mod siblings;
mod together;
mod trouble;
mod walks;
