//! The parts that the `usher` binary joins.
//!
//! **Invariants**
//! - Nothing is decided here that the domain decides: adapters bring answers and do verbs.
//! - Whatever outlives this process is found again by its name and its lock, never by memory.

pub mod client;
pub mod clock;
pub mod config;
pub mod console;
pub mod data_dir;
pub mod failpoint;
pub mod serve;
pub mod session;
pub mod stop;
pub mod verbs;
pub mod wait;
