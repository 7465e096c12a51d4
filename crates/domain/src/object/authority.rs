//! The authority that answers for a world, and when its silence proves nothing.
//!
//! A world that was rebuilt answers "absent" to everything. So its identity and the highest
//! revision it ever showed are pinned, and a mass disappearance is held until an operator confirms
//! it.

use serde::{Deserialize, Serialize};
use usher_kernel::{Timestamp, Trouble, Uid};

/// A future that a port of trait objects answers with.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a world said it is, or what was pinned of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The identity that a rebuilt world does not have.
    pub identity: Uid,
    /// The highest revision seen.
    pub revision: u64,
}

/// Whether the answer comes from the pinned world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// It does.
    Pinned,
    /// Another world answers, or the same one forgot: absence is unknown.
    Replaced,
}

impl Pin {
    /// Judges an answer by what is pinned.
    pub fn judge(&self, answered: &Self) -> Authority {
        if answered.identity != self.identity || answered.revision < self.revision {
            Authority::Replaced
        } else {
            Authority::Pinned
        }
    }
}

/// What is recorded of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldRecord {
    /// Its identity, and the highest revision it showed.
    pub pin: Pin,
    /// Since when the mass-deletion guard holds its absences, if it does.
    pub tripped_at: Option<Timestamp>,
    /// When the guard was last reset.
    pub reset_at: Option<Timestamp>,
}

/// Where pins and mass-deletion guards are recorded: rows of a database, or an object of a cluster.
pub trait WorldRecords: Send + Sync + 'static {
    /// What is recorded of a world.
    fn read<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<Option<WorldRecord>, Trouble>>;

    /// Records the identity of a new world, or raises the revision of the same one; what is
    /// recorded then.
    fn pin<'a>(&'a self, world: &'a str, pin: Pin) -> BoxFuture<'a, Result<WorldRecord, Trouble>>;

    /// Trips the guard of a world; whether it was not tripped before.
    fn trip<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<bool, Trouble>>;

    /// How many resources have a substrate in a world.
    fn present<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<u32, Trouble>>;
}

/// When the mass-deletion guard trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassDeletionGuard {
    /// More than this many...
    pub count: u32,
    /// ...and more than this share, in percent, of what was present.
    pub percent: u32,
}

impl Default for MassDeletionGuard {
    fn default() -> Self {
        Self { count: 10, percent: 20 }
    }
}

impl MassDeletionGuard {
    /// Whether this many of so many, unasked, within the window, trip the guard.
    pub fn trips(&self, vanished: u32, present: u32) -> bool {
        let share = u64::from(vanished) * 100;
        vanished > self.count && share > u64::from(present) * u64::from(self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(identity: &str, revision: u64) -> Pin {
        Pin { identity: Uid::new(identity), revision }
    }

    // Requirement: O-3
    #[test]
    fn another_identity_or_a_smaller_revision_is_another_world() {
        let pinned = pin("a", 7);
        assert_eq!(pinned.judge(&pin("a", 7)), Authority::Pinned);
        assert_eq!(pinned.judge(&pin("a", 8)), Authority::Pinned);
        assert_eq!(pinned.judge(&pin("a", 6)), Authority::Replaced);
        assert_eq!(pinned.judge(&pin("b", 9)), Authority::Replaced);
    }

    // Requirement: O-6
    #[test]
    fn the_guard_needs_both_count_and_share() {
        let guard = MassDeletionGuard::default();
        assert!(!guard.trips(10, 10), "ten are not more than ten");
        assert!(guard.trips(11, 54), "more than ten and more than a fifth");
        assert!(!guard.trips(11, 55), "exactly a fifth");
        assert!(!guard.trips(1_000, 10_000));
    }
}
