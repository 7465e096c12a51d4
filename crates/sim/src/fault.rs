//! Faults: those of every driver, and how a world declares its own beside them.

use crate::rng::Rng;
use crate::words::{Words, words};

words! {
    /// What can happen to a driver in any world.
    DriverFault {
        /// A driver dies at an await.
        Crash = "crash at an await",
        /// A driver falls asleep between two awaits for longer than its lease.
        Sleep = "driver asleep beyond its lease",
        /// The outside refuses a verb.
        Refusal = "verb refused",
        /// A verb is done and its answer is lost.
        AnswerLost = "answer of a verb lost",
        /// A commit is done and its answer is lost.
        CommitAnswerLost = "answer of a commit lost",
        /// A request arrives a second time, later.
        Repeated = "request repeated",
    }
}

/// A fault of some world: a driver's, or one of its own.
pub trait Fault: Words {
    /// Its place among all faults of its world; the drivers' come first.
    fn place(self) -> usize;
}

impl Fault for DriverFault {
    fn place(self) -> usize {
        self.index()
    }
}

/// Declares the faults that a world has beside the drivers'.
macro_rules! faults {
    ($($(#[$doc:meta])* $member:ident = $word:literal,)+) => {
        $crate::words::words! {
            /// What can go wrong in this world, beside the faults of a driver.
            Fault { $($(#[$doc])* $member = $word,)+ }
        }

        impl $crate::fault::Fault for Fault {
            fn place(self) -> usize {
                use $crate::words::Words as _;
                $crate::fault::DriverFault::ALL.len() + self as usize
            }
        }
    };
}

pub(crate) use faults;

/// The word of every fault of a world, the drivers' first.
pub fn names<F: Fault>() -> Vec<&'static str> {
    let drivers = DriverFault::ALL.iter().map(|it| it.as_str());
    drivers.chain(F::ALL.iter().map(|it| it.as_str())).collect()
}

/// The faults that one run may meet: each run draws its own mix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u128);

impl Mix {
    /// Draws a mix from the faults of a world.
    pub fn draw<F: Fault>(rng: &mut Rng) -> Self {
        let share = 10 + rng.below(50);
        let mut bits = 0;
        for place in 0..DriverFault::ALL.len() + F::ALL.len() {
            if rng.percent(share) {
                bits |= 1 << place;
            }
        }
        Self(bits)
    }

    /// The mix with one more fault.
    #[must_use]
    pub fn and(self, fault: impl Fault) -> Self {
        Self(self.0 | 1 << fault.place())
    }

    /// The mix without a fault.
    #[must_use]
    pub fn without(self, fault: impl Fault) -> Self {
        Self(self.0 & !(1 << fault.place()))
    }

    /// Whether the fault is in the mix.
    pub fn has(self, fault: impl Fault) -> bool {
        self.0 & (1 << fault.place()) != 0
    }
}
