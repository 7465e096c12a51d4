//! The first walk with the real binary: a node really enrols and really leaves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

#[path = "../../../api/tests/api/asked.rs"]
mod asked;
mod fuzz;
mod house;
mod kills;
mod order;
mod refusals;
mod servers;
mod trouble;
mod walks;
