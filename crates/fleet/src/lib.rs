//! The shard controller of machines.
//!
//! ```text
//!   provider ──lists──▶ lister ─┐                       ┌─▶ pool: one step per machine ─▶ provider
//!   store ──demand, commands─▶ planner ─aims──▶ memory ─┤         │
//!                                                       └◀ writer ◀┘ what was decided, in batches
//! ```
//!
//! Read in this order: [`shard`] (leases and epochs), [`epoch`] (shared state), [`memory`] and
//! [`lists`] (the cache, and how a list is applied to it), [`step`] and [`pool`] (one machine, and
//! many), [`lister`], [`planner`], [`writer`], [`provider`] and [`record`] (the wire),
//! [`bootstrap`] (bootstrap data of machines), [`tally`] (metrics).

pub mod bootstrap;
pub mod epoch;
pub mod lister;
pub mod lists;
pub mod memory;
pub mod planner;
pub mod pool;
pub mod provider;
pub mod record;
pub mod shard;
pub mod step;
pub mod tally;
pub mod writer;
