//! Named places where a process can be made to die, as by `kill -9`.
//!
//! A failpoint that is not armed costs one load. The list is closed, so that a test of crashes can
//! ask for every place by name.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use thiserror::Error;

macro_rules! failpoints {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// A place.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Failpoint {
            $($(#[$doc])* $name,)*
        }

        impl Failpoint {
            /// Every place.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word for it.
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
    /// An object was written aside and does not stand under its name yet.
    ObjectStaged = "object-staged",
    /// An object stands under its name.
    ObjectCreated = "object-created",
    /// An object was changed.
    ObjectWritten = "object-written",
    /// An object is gone and is still noted.
    ObjectUnnamed = "object-unnamed",
    /// An object is gone, and nothing of it is noted.
    ObjectErased = "object-erased",
    /// A process was recorded and not started.
    UnitRecorded = "unit-recorded",
    /// A process is about to be started.
    BeforeSpawn = "before-spawn",
    /// A process was started.
    AfterSpawn = "after-spawn",
    /// A process is about to be asked or made to end.
    BeforeSignal = "before-signal",
    /// A process was asked or made to end.
    AfterSignal = "after-signal",
    /// The record of a process lost its name and is not erased yet.
    UnitUnnamed = "unit-unnamed",
    /// A step is about to do its verb.
    BeforeEffect = "before-effect",
    /// A step did its verb and wrote nothing yet.
    AfterEffect = "after-effect",
    /// A step is about to write what it decided.
    BeforeCommit = "before-commit",
    /// A step wrote what it decided.
    AfterCommit = "after-commit",
    /// A step is over and its lease is not given back yet.
    BeforeRelease = "before-release",
    /// A declaration is about to be written.
    BeforeAccept = "before-accept",
    /// A declaration was written and not answered.
    AfterAccept = "after-accept",
    /// An order about a resource is about to be written.
    BeforeOrder = "before-order",
    /// An order was written and not answered.
    AfterOrder = "after-order",
    /// A bootstrap token is about to be redeemed.
    BeforeRedeem = "before-redeem",
    /// A bootstrap token was redeemed and the node does not know.
    AfterRedeem = "after-redeem",
    /// A node is about to be moved one step on its way out.
    BeforeDrain = "before-drain",
    /// A node was moved one step on its way out.
    AfterDrain = "after-drain",
    /// A provider is about to write entries of its journal.
    BeforeAppend = "provider-before-append",
    /// Entries of a journal are written and not yet durable.
    BeforeSync = "provider-before-sync",
    /// Entries of a journal are durable and not acknowledged yet.
    AfterSync = "provider-after-sync",
    /// A snapshot of a journal is written aside and has no name yet.
    SnapshotStaged = "provider-snapshot-staged",
    /// A snapshot of a journal has its name.
    SnapshotNamed = "provider-snapshot-named",
    /// A provider is about to ask its substrate.
    BeforeVerb = "provider-before-verb",
    /// The substrate answered a provider, and nothing is written.
    AfterVerb = "provider-after-verb",
    /// The end of a verb was recorded and is not durable yet.
    VerbEnded = "provider-verb-ended",
}

/// Why a text arms nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadFailpoint {
    /// No such place.
    #[error("cannot arm failpoint \"{text}\": there is none of that name")]
    Unknown {
        /// The offending text.
        text: String,
    },
    /// Not a number above zero.
    #[error("cannot arm failpoint \"{text}\": the passing is not a number from 1")]
    Passing {
        /// The offending text.
        text: String,
    },
    /// One is armed already.
    #[error("cannot arm failpoint \"{text}\": one is armed already")]
    Armed {
        /// The offending text.
        text: String,
    },
}

/// A place, and the passing at which the process dies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The place.
    pub point: Failpoint,
    /// Which passing, from one.
    pub passing: u32,
}

static ARMED: OnceLock<Order> = OnceLock::new();
static PASSED: AtomicU32 = AtomicU32::new(0);

impl Failpoint {
    /// Passes the place; the process ends here if this is the passing that was ordered.
    pub fn pass(self) {
        let Some(order) = ARMED.get().filter(|it| it.point == self) else { return };
        if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == order.passing {
            // Nothing is cleaned up: that is what is tested.
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

impl FromStr for Order {
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

/// Arms the one failpoint of this process: `NAME` or `NAME:n`.
pub fn arm(text: &str) -> Result<Order, BadFailpoint> {
    let order = text.parse()?;
    ARMED.set(order).map_err(|_| BadFailpoint::Armed { text: text.to_owned() })?;
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_a_place_and_a_passing() {
        for point in Failpoint::ALL.iter().copied() {
            assert_eq!(point.as_str().parse(), Ok(Order { point, passing: 1 }));
            assert_eq!(format!("{point}:3").parse(), Ok(Order { point, passing: 3 }));
        }
    }

    #[test]
    fn what_names_no_place_or_no_passing_is_refused() {
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
            assert_eq!(text.parse::<Order>(), Err(refusal), "{text}");
        }
    }

    // Requirement: LW-12
    #[test]
    fn every_place_has_its_own_word() {
        let words = Failpoint::ALL.iter().map(|it| it.as_str());
        let words: std::collections::BTreeSet<_> = words.collect();
        assert_eq!(words.len(), Failpoint::ALL.len());
    }
}
