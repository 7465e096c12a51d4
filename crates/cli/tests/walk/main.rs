//! The first walk with the real binary: a node really enrols and really leaves.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot unwrap has failed")]

mod caller;
mod figures;
mod house;
mod kills;
mod trouble;
mod walks;
