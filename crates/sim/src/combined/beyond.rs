//! What the worlds hardly meet while they are joined, and why.

use crate::base::Course;
use crate::clock::Tick;
use crate::injected_fault;
use crate::sim_world::SimWorld;
use crate::usage::fault::Fault as InUsage;
use crate::words::Words;
use crate::{direct, fleet};

/// How much longer a fault phase lasts: a resource has to wait for what its XR composes.
pub const LONGER: Tick = 300;

/// One Usage per machine, declared only by the composer: no two of them share or hand
/// over a mark, none changes its mind, and it lets go of a machine only once its user is gone. The
/// namespace of a project exists while it has resources. Machines are deleted by the broker's own
/// faults, and pass admission here.
pub fn usage() -> Vec<&'static str> {
    let verbs = [
        "(Pending, Yield)",
        "(Protected, Yield)",
        "(Releasing, Yield)",
        "(Pending, Unblock)",
        "(Protected, Unblock)",
        "(Pending, Unmark)",
        "(Protected, Unmark)",
        "(Idle, Unmark)",
        "(Pending, HandOver)",
        "(Protected, HandOver)",
        "(Idle, HandOver)",
        "(Releasing, HandOver)",
        "(Pending, Replay)",
        "(Protected, Replay)",
        "(Idle, Replay)",
    ];
    let faults = [
        InUsage::TargetDeleted,
        InUsage::UsageDeleted,
        InUsage::NamespaceDeleted,
        InUsage::Edited,
        InUsage::Recreated,
        InUsage::Restored,
        InUsage::OwnersChanged,
        InUsage::Crossplane,
        InUsage::Circle,
    ];
    words(&verbs, &faults)
}

/// Only the composer declares anything, and nothing happens that only a person can put right:
/// a name that another owner has, a record that is lost, an object that a restore brought back.
/// Without that hardly anything is there before its row knows it or after its end, so hardly
/// anything is updated while it is `Pending` or asked for once it is `Deleted`.
pub fn direct() -> Vec<&'static str> {
    let faults = [
        direct::fault::Fault::Copied,
        direct::fault::Fault::Replaced,
        direct::fault::Fault::NameTaken,
        direct::fault::Fault::OtherInstallation,
        direct::fault::Fault::LedgerLost,
        direct::fault::Fault::RecordLost,
        direct::fault::Fault::StampMalformed,
        direct::fault::Fault::StampForged,
        direct::fault::Fault::Restored,
        direct::fault::Fault::NamespaceDeleted,
        direct::fault::Fault::SameIdentity,
        direct::fault::Fault::IdentityEdited,
        direct::fault::Fault::ConfigMissing,
    ];
    let verbs = ["(Pending, Update)", "(Deleted, Delete)", "(Deleted, RemoveFinalizer)"];
    words(&verbs, &faults)
}

/// One cluster has too few needs to distinguish a collapse from a change of mind.
pub fn fleet() -> Vec<&'static str> {
    words(&[], &[fleet::fault::Fault::Collapse])
}

/// Takes out of a world's course what it shall not meet, and insists on the rest.
pub fn settle<R: SimWorld>(course: &mut Course, seed: u64, left_out: &[&str]) {
    for fault in R::Fault::ALL {
        if left_out.contains(&fault.as_str()) {
            course.mix = course.mix.without(*fault);
        }
    }
    let pairs = R::pairs();
    let possible = (0..pairs.len()).filter(|it| !left_out.contains(&pairs[*it].as_str()));
    let possible: Vec<usize> = possible.collect();
    let (place, injected) = injected_fault::target(seed, possible.len());
    course.target = (possible.get(place).copied().unwrap_or(place), injected);
    course.faults_end += LONGER;
}

fn words<F: Words>(verbs: &[&'static str], faults: &[F]) -> Vec<&'static str> {
    verbs.iter().copied().chain(faults.iter().map(|it| it.as_str())).collect()
}
