//! Resources: accepted, loaded, committed step by step, torn down, and watched afterwards.

pub(crate) mod accept;
pub(crate) mod commit;
pub(crate) mod context;
pub(crate) mod deprovision;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod snapshot;
pub(crate) mod tombstone;
