//! Every context's vocabulary and rules: pure, with the ports they need.
//!
//! Contexts are folders here. None imports another: what a context needs of a sibling it names as
//! a small view of its own, and foreign things it knows by id only. Shared by all are the kernel,
//! [`object`] (ids, names, labels, providers) and [`blueprint`] (what a blueprint is made of).
//!
//! **Invariants**
//! - No clock, no randomness, no I/O, no logging, no runtime: the manifest and clippy hold it.
//! - Every parser answers garbage with a closed refusal that names the offender.
//! - Iteration order is deterministic: equal input gives equal bytes.

pub mod audit;
pub mod blueprint;
pub mod broker;
pub mod catalog;
pub mod clouds;
pub mod credentials;
pub mod direct;
pub mod fleet;
pub mod labels;
pub mod object;
pub mod operators;
pub mod peers;
pub mod placements;
pub mod projects;
pub mod sinks;
pub mod tokens;
pub mod usage;
