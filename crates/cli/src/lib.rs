//! The parts that the `usher` binary joins.
//!
//! **Invariants**
//! - Nothing is decided here that the domain decides: adapters bring answers and do verbs.
//! - Whatever outlives this process is found again by its name and its lock, never by memory.

pub mod clock;
pub mod config;
pub mod failpoint;
pub mod serve;
pub mod verbs;
