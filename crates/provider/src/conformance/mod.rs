//! What every provider must do, asked of any that speaks the protocol.
//!
//! A behaviour has an id that never changes. It passes, fails, or is skipped with a reason; one
//! that was asked for and not exercised leaves the whole incomplete, never passed.
//!
//! Read [`list`](fn@list) for the behaviours, `probe` for what they ask with, and one file per area
//! for how. The durable, fault, salvage and scale lanes start the candidate themselves.

mod area;
mod boot;
mod concurrency;
mod durability;
mod failure;
mod fencing;
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
pub use boot::{Boot, BootError};
pub use suite::{Certificate, Finding, Result as Exercised, Suite, Target, run};
