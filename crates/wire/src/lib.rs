//! Messages between processes, as plain data.
//!
//! **Invariants**
//! - No message with a secret prints it.
//!
//! **Absent on purpose**: rules. Nothing here decides whether a request is granted.

mod chain;
pub mod data_dir;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod http;
pub mod operator;

pub use chain::chain;
