//! What a port means everywhere: suites that every adapter, simulated or real, must pass.
//!
//! A suite is a list of promises over the adapter under test, with access from outside. It needs
//! no runtime; the caller brings one.

mod lamp;
pub mod ledger;
pub mod memory;
pub mod port;
mod queue;
pub mod store;
pub mod substrate;
pub mod test_world;
mod turns;
