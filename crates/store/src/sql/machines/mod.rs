//! Machines of the fleet. Locks are taken in one order: the shard's row, then machines.

pub(crate) mod command;
pub(crate) mod cycle;
pub(crate) mod demand;
pub(crate) mod rows;
pub(crate) mod shards;
