//! The Lease: one process acts, and one that was overtaken sends nothing.

mod clock;
mod term;

pub use clock::Clock;
pub use term::{Beginning, Term, TermControl};
