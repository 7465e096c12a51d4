//! What every context may speak of: ids, names and labels as data.

pub mod authority;
pub mod closed;
pub mod id;
pub mod name;
