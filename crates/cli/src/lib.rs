//! The parts that the `usher` binary joins.
//!
//! **Invariants**
//! - Nothing is decided here that the domain decides: adapters bring answers and do verbs.

pub mod verbs;
