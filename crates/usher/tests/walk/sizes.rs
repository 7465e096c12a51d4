//! Sizes of the soak tests. `cargo test` runs them small; `cargo xtask soak walk` larger.

/// A size, unless the environment sets another.
#[expect(
    clippy::disallowed_methods,
    reason = "tests have no Config; only this reads the environment"
)]
pub(crate) fn size(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |it| it.parse().unwrap())
}

/// Pseudo-random numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Seeded by `USHER_SOAK_SEED`.
    pub(crate) fn new() -> Self {
        Self(size("USHER_SOAK_SEED", 1))
    }

    /// A number below this.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}
