//! What runs while a server runs.

pub mod local;
pub mod supervisor;
