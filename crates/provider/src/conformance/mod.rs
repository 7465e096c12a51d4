//! The conformance suite for providers.
//!
//! A behaviour has an id that never changes. It passes, fails, or is skipped with a reason; a
//! required behaviour that was skipped makes the result incomplete, never certified.
//!
//! Read [`list`](fn@list) for the behaviours, `probe` for their client, and one file per area for
//! the checks. The durable, fault, salvage and scale profiles start the candidate themselves.

mod area;
mod concurrency;
mod durability;
mod failure;
mod fencing;
mod launcher;
mod lifecycle;
mod listing;
mod matrix;
mod metadata;
mod probe;
mod property;
mod salvage;
mod scale;
mod shape;
mod suite;

pub use area::{Area, Behaviour, Profile, list};
pub use launcher::{LaunchError, Launcher};
pub use suite::{Certificate, Finding, Result as Exercised, Suite, Target, run};
