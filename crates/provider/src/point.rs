//! Places where a provider can be made to die, by whoever tests that it comes back.

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
}

/// Called at each place.
pub type Pass = fn(Point);

/// Passes every place.
pub fn pass(_: Point) {}
