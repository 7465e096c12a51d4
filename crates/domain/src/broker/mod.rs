//! placeholder

pub mod render;
