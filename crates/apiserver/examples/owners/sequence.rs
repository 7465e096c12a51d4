//! Sequences of creations, owner changes, deletions, and finalizer removals.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::collection::SizeRange;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde::{Deserialize, Serialize};

/// The names of objects without a finalizer.
const LIGHT: Range<usize> = 0..7;
/// The names of objects with a finalizer. They are never deleted in the foreground, nor owned by
/// others that are: whether a dependent that does not block is gone before its owner stops waiting
/// is chance, and shows when the owner stays.
const HELD: Range<usize> = 7..10;

/// Owners by name, and whether each waits for what it owns. A name stands for the newest object
/// that had it, also when that is gone.
pub(crate) type Owners = BTreeMap<usize, bool>;

/// A step. An impossible one, such as deleting a missing object, does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Step {
    /// Creates an object; a held one has a finalizer.
    Create {
        name: usize,
        owners: Owners,
        held: bool,
    },
    Own {
        name: usize,
        owners: Owners,
    },
    Delete {
        name: usize,
        policy: Policy,
    },
    /// Removes the finalizer.
    Release {
        name: usize,
    },
}

/// The propagation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// Random sequences of this length.
pub(crate) fn sequences(count: impl Into<SizeRange>) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(steps(), count)
}

/// The sequence of a seed.
pub(crate) fn of_seed(seed: u64, count: usize) -> Option<Vec<Step>> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = sequences(count).new_tree(&mut runner);
    tree.ok().map(|tree| tree.current())
}

fn steps() -> impl Strategy<Value = Step> {
    let all = vec![Policy::Background, Policy::Foreground, Policy::Orphan];
    let owners = |names| prop::collection::btree_map(names, any::<bool>(), 0..4);
    prop_oneof![
        8 => of_names(LIGHT, owners(LIGHT.start..HELD.end), all),
        5 => of_names(HELD, owners(HELD), vec![Policy::Background, Policy::Orphan]),
        1 => HELD.prop_map(|name| Step::Release { name }),
    ]
}

fn of_names(
    names: Range<usize>,
    owners: impl Strategy<Value = Owners> + Clone,
    policies: Vec<Policy>,
) -> impl Strategy<Value = Step> {
    let held = names == HELD;
    let policy = prop::sample::select(policies);
    prop_oneof![
        2 => (names.clone(), owners.clone())
            .prop_map(move |(name, owners)| Step::Create { name, owners, held }),
        1 => (names.clone(), owners).prop_map(|(name, owners)| Step::Own { name, owners }),
        1 => (names, policy).prop_map(|(name, policy)| Step::Delete { name, policy }),
    ]
}
