//! A seeded, simulated world in which every rule is tried at once.
//!
//! One seed decides one run: what people wish for, an outside that is never kinder than the real
//! one, several drivers that die and oversleep, and a mix of faults. First safety: while
//! everything breaks, nothing wrong may happen. Then liveness: once no fault is injected any more,
//! the run must end as wished.
//!
//! The harness is here: [`sim_world`] (what a world must provide), [`base`] (what every world has),
//! [`driver_step`] and [`driver`] (drivers and their faults), [`scenario`] (one seed),
//! [`run`] (many). Each world is a folder: [`broker`], [`usage`], [`direct`], [`fleet`];
//! [`combined`] joins them. What every adapter must pass is in [`contract`].
//!
//! **Invariants**
//! - The drivers run the product's own `kernel::step` and `domain` rules, never a copy.
//! - Nothing reads a clock or a random device: the same seed gives the same run.
//! - Breakages are wrappers here; the product has no switch for them.

pub mod base;
pub mod bench;
pub mod broker;
pub mod clock;
pub mod combined;
pub mod contract;
pub mod coverage;
pub mod direct;
pub mod driver;
pub mod driver_step;
pub mod fault;
pub mod fleet;
pub mod injected_fault;
pub mod rng;
pub mod run;
pub mod scenario;
pub mod sim_world;
pub mod usage;
pub mod words;
