//! The fleet's rows. Locks are taken in one order: the shard's row, then machines.

pub(crate) mod demand;
pub(crate) mod machines;
pub(crate) mod orders;
pub(crate) mod port;
pub(crate) mod shards;
