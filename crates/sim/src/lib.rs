//! A seeded world in which every law is tried at once.
//!
//! One seed decides one life: the wishes of a few resources that share a ProviderConfig, a
//! cluster that is never kinder than a real one, several drivers that die and oversleep, and a
//! mix of faults. First safety: while everything breaks, nothing wrong may happen. Then liveness:
//! once nobody disturbs it any more, the life must end as wished.
//!
//! **Invariants**
//! - The drivers run the product's own `kernel::step` and `domain` rules, never a copy.
//! - Nothing reads a clock or a random device: the same seed is the same life.
//! - Breakages are wrappers here; the product has no switch for them.

pub mod bench;
pub mod breakage;
pub mod check;
pub mod coverage;
pub mod driver;
pub mod evolve;
pub mod execute;
pub mod fault;
pub mod life;
pub mod look;
pub mod mesh;
pub mod outside;
pub mod people;
pub mod plan;
pub mod reader;
pub mod rng;
pub mod run;
pub mod seat;
pub mod state;
pub mod store;
pub mod storm;
