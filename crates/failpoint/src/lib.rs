//! Named failpoints: places where a process can be killed, as by `kill -9`.
//!
//! A failpoint that is not armed costs one load. The list is closed, so that a crash test can
//! iterate over it.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use thiserror::Error;

macro_rules! failpoints {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Failpoint {
            $($(#[$doc])* $name,)*
        }

        impl Failpoint {
            pub const ALL: &[Self] = &[$(Self::$name),*];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

failpoints! {
    /// The local world raised its revision and changed nothing yet.
    WorldCounted = "world-counted",
    /// An object was written to a temporary file and is not renamed yet.
    ObjectStaged = "object-staged",
    /// An object was renamed into place.
    ObjectCreated = "object-created",
    /// An object was changed.
    ObjectWritten = "object-written",
    /// An object was removed and its note was not.
    ObjectUnnamed = "object-unnamed",
    /// An object and its note were removed.
    ObjectErased = "object-erased",
    /// A process was recorded and not started.
    UnitRecorded = "unit-recorded",
    /// A process is about to be started.
    BeforeSpawn = "before-spawn",
    /// A process was started.
    AfterSpawn = "after-spawn",
    /// A process is about to be signalled.
    BeforeSignal = "before-signal",
    /// A process was signalled.
    AfterSignal = "after-signal",
    /// The record of a process was unnamed and is not erased yet.
    UnitUnnamed = "unit-unnamed",
    /// A step is about to apply its effect.
    BeforeEffect = "before-effect",
    /// A step applied its effect and wrote nothing yet.
    AfterEffect = "after-effect",
    /// A step is about to commit.
    BeforeCommit = "before-commit",
    /// A step committed.
    AfterCommit = "after-commit",
    /// A step finished and its lease is not released yet.
    BeforeRelease = "before-release",
    /// A declaration is about to be written.
    BeforeAccept = "before-accept",
    /// A declaration was written and the client has no response.
    AfterAccept = "after-accept",
    /// A command about a resource is about to be written.
    BeforeOrder = "before-order",
    /// A command was written and the client has no response.
    AfterOrder = "after-order",
    /// A bootstrap token is about to be redeemed.
    BeforeRedeem = "before-redeem",
    /// A bootstrap token was redeemed and the node has no response.
    AfterRedeem = "after-redeem",
    /// A drain is about to advance one stage.
    BeforeDrain = "before-drain",
    /// A drain advanced one stage.
    AfterDrain = "after-drain",
    /// A server key was written to its file and is not recorded.
    KeyWritten = "key-written",
    /// A server key was recorded.
    KeyRecorded = "key-recorded",
    /// A provider is about to append to its journal.
    BeforeAppend = "provider-before-append",
    /// Journal entries are written and not yet durable.
    BeforeSync = "provider-before-sync",
    /// Journal entries are durable and not acknowledged yet.
    AfterSync = "provider-after-sync",
    /// A journal snapshot is written to a temporary file and is not renamed yet.
    SnapshotStaged = "provider-snapshot-staged",
    /// A journal snapshot was renamed into place.
    SnapshotNamed = "provider-snapshot-named",
    /// A provider is about to call its backend.
    BeforeVerb = "provider-before-verb",
    /// The backend returned, and nothing is written.
    AfterVerb = "provider-after-verb",
    /// The end of a command was recorded and is not durable yet.
    VerbEnded = "provider-verb-ended",
}

/// Why a failpoint is not armed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadFailpoint {
    /// No such failpoint.
    #[error("unknown failpoint \"{text}\": `usher failpoints` lists them")]
    Unknown { text: String },
    /// The passing is not a number from 1.
    #[error("failpoint \"{text}\" is not NAME or NAME:n with n from 1")]
    Passing { text: String },
    /// One is armed already.
    #[error("failpoint \"{text}\" is not armed: another one is")]
    Armed { text: String },
}

/// A failpoint, and the passing at which the process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    pub point: Failpoint,
    /// Which passing, from one.
    pub passing: u32,
}

static ARMED: OnceLock<Trigger> = OnceLock::new();
static PASSED: AtomicU32 = AtomicU32::new(0);

impl Failpoint {
    /// Passes the failpoint; the process dies if this is the armed passing.
    pub fn pass(self) {
        let Some(trigger) = ARMED.get().filter(|it| it.point == self) else { return };
        if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == trigger.passing {
            // No cleanup: that is what is tested.
            let _ = kill_process(getpid(), Signal::KILL);
            std::process::abort();
        }
    }
}

impl fmt::Display for Failpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Trigger {
    type Err = BadFailpoint;

    fn from_str(whole: &str) -> Result<Self, BadFailpoint> {
        let (name, passing) = whole.split_once(':').unwrap_or((whole, "1"));
        let point = Failpoint::ALL.iter().copied().find(|it| it.as_str() == name);
        let point = point.ok_or_else(|| BadFailpoint::Unknown { text: whole.to_owned() })?;
        let passing = passing.parse().ok().filter(|it| *it > 0);
        let passing = passing.ok_or_else(|| BadFailpoint::Passing { text: whole.to_owned() })?;
        Ok(Self { point, passing })
    }
}

/// Arms the only failpoint of this process: `NAME` or `NAME:n`.
pub fn arm(text: &str) -> Result<Trigger, BadFailpoint> {
    let trigger = text.parse()?;
    ARMED.set(trigger).map_err(|_| BadFailpoint::Armed { text: text.to_owned() })?;
    Ok(trigger)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_is_parsed_with_and_without_a_passing() {
        for point in Failpoint::ALL.iter().copied() {
            assert_eq!(point.as_str().parse(), Ok(Trigger { point, passing: 1 }));
            assert_eq!(format!("{point}:3").parse(), Ok(Trigger { point, passing: 3 }));
        }
    }

    #[test]
    fn an_unknown_failpoint_or_an_invalid_passing_is_refused() {
        let unknown = |text: &str| BadFailpoint::Unknown { text: text.to_owned() };
        let passing = |text: &str| BadFailpoint::Passing { text: text.to_owned() };
        let cases = [
            ("", unknown("")),
            ("nowhere", unknown("nowhere")),
            ("nowhere:1", unknown("nowhere:1")),
            ("before-spawn:", passing("before-spawn:")),
            ("before-spawn:0", passing("before-spawn:0")),
            ("before-spawn:-1", passing("before-spawn:-1")),
            ("before-spawn:1:1", passing("before-spawn:1:1")),
        ];
        for (text, refusal) in cases {
            assert_eq!(text.parse::<Trigger>(), Err(refusal), "{text}");
        }
    }

    // Requirement: LW-12
    #[test]
    fn every_failpoint_has_its_own_name() {
        let words = Failpoint::ALL.iter().map(|it| it.as_str());
        let words: std::collections::BTreeSet<_> = words.collect();
        assert_eq!(words.len(), Failpoint::ALL.len());
    }
}
