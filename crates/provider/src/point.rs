//! Places where a provider can be made to die, by whoever tests that it comes back.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// A place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Entries are about to be written.
    BeforeAppend,
    /// Entries are written and not yet safe.
    BeforeSync,
    /// Entries are safe and nobody was told.
    AfterSync,
    /// A snapshot is written aside and has no name.
    SnapshotStaged,
    /// A snapshot has its name.
    SnapshotNamed,
    /// The substrate is about to be asked.
    BeforeVerb,
    /// The substrate answered, and nothing is written.
    AfterVerb,
    /// The end of a verb was noted and is not safe.
    VerbEnded,
}

/// Called at each place.
pub type Pass = fn(Point);

static ARMED: OnceLock<(Point, u32)> = OnceLock::new();
static PASSED: AtomicU32 = AtomicU32::new(0);

impl Point {
    /// Every place.
    pub const ALL: [Self; 8] = [
        Self::BeforeAppend,
        Self::BeforeSync,
        Self::AfterSync,
        Self::SnapshotStaged,
        Self::SnapshotNamed,
        Self::BeforeVerb,
        Self::AfterVerb,
        Self::VerbEnded,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeAppend => "provider-before-append",
            Self::BeforeSync => "provider-before-sync",
            Self::AfterSync => "provider-after-sync",
            Self::SnapshotStaged => "provider-snapshot-staged",
            Self::SnapshotNamed => "provider-snapshot-named",
            Self::BeforeVerb => "provider-before-verb",
            Self::AfterVerb => "provider-after-verb",
            Self::VerbEnded => "provider-verb-ended",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Passes every place.
pub fn pass(_: Point) {}

/// Passes a place, and dies there, as by `kill -9`, if that was ordered with [`arm`].
pub fn pass_or_die(point: Point) {
    let Some((_, passing)) = ARMED.get().filter(|(armed, _)| *armed == point) else { return };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *passing {
        // Nothing is cleaned up: that is what is tested.
        let _ = kill_process(getpid(), Signal::KILL);
        std::process::abort();
    }
}

/// Arms the one failpoint of this process: `NAME` or `NAME:n`; nothing if there is none of that
/// name, or one is armed.
pub fn arm(text: &str) -> Option<Point> {
    let (name, passing) = text.split_once(':').unwrap_or((text, "1"));
    let point = Point::ALL.into_iter().find(|it| it.as_str() == name)?;
    let passing = passing.parse().ok().filter(|it| *it > 0)?;
    ARMED.set((point, passing)).ok().map(|()| point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_place_and_a_passing_arm() {
        for text in ["", "nowhere", "provider-before-sync:0", "provider-before-sync:x"] {
            assert_eq!(arm(text), None, "{text}");
        }
    }
}
