//! What one seed decides before a run begins.

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::verdict::EffectKind;

use crate::base::Course;
use crate::broker::fault::Fault;
use crate::clock::{FAULTS_END, Tick};
use crate::fault::Mix;
use crate::injected_fault;
use crate::rng::Rng;

/// A pair of the transition table: a verb and the phase it leads to.
pub type Pair = (Phase, EffectKind);

/// Every pair that occurs in the transition table.
pub const PAIRS: [Pair; 14] = [
    (Phase::Pending, EffectKind::CreateAnchor),
    (Phase::Pending, EffectKind::IssueToken),
    (Phase::Pending, EffectKind::Apply),
    (Phase::Pending, EffectKind::DeregisterNode),
    (Phase::Pending, EffectKind::ReleaseProtection),
    (Phase::Pending, EffectKind::DeleteSubstrate),
    (Phase::Pending, EffectKind::DeleteAnchor),
    (Phase::Provisioning, EffectKind::Apply),
    (Phase::Enrolling, EffectKind::Apply),
    (Phase::Ready, EffectKind::Apply),
    (Phase::Deregistering, EffectKind::DeregisterNode),
    (Phase::Deprovisioning, EffectKind::ReleaseProtection),
    (Phase::Deprovisioning, EffectKind::DeleteSubstrate),
    (Phase::Deprovisioning, EffectKind::DeleteAnchor),
];

/// The wishes and circumstances of one resource.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Whether a node belongs to it.
    pub role: MeshRole,
    /// When it is declared.
    pub declare_at: Tick,
    /// When its deletion is requested.
    pub retire_at: Option<Tick>,
    /// When a new generation is requested.
    pub replace_at: Option<Tick>,
    /// When it is given up.
    pub abandon_at: Option<Tick>,
    /// Whether we guard its XR ourselves.
    pub guard_ours: bool,
    /// Whether the names of its children distinguish one XR from the next of its name.
    pub distinct_parts: bool,
    /// How many children its XR composes.
    pub parts: u8,
}

/// What one seed decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One per resource; all share one ProviderConfig.
    pub wishes: Vec<Wishes>,
    /// What every world draws.
    pub course: Course,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64, rng: &mut Rng) -> Self {
        let target = injected_fault::target(seed, PAIRS.len());
        let mut mix = Mix::draw::<Fault>(rng);
        let count = match rng.below(10) {
            0..=5 => 1,
            6..=8 => 2,
            _ => 3,
        };
        let mut wishes: Vec<Wishes> = (0..count).map(|_| Wishes::draw(rng)).collect();
        lead_to(PAIRS[target.0], &mut wishes[0], &mut mix, rng);
        let drivers = 2 + usize::from(rng.percent(40));
        let faults_end = rng.between(60, FAULTS_END);
        Self { wishes, course: Course { drivers, mix, target, faults_end } }
    }
}

impl Wishes {
    fn draw(rng: &mut Rng) -> Self {
        let retire = rng.percent(80);
        let replace = rng.percent(15);
        let abandon = rng.percent(3);
        Self {
            role: if rng.percent(75) { MeshRole::Node } else { MeshRole::Standalone },
            declare_at: rng.between(0, 60),
            retire_at: retire.then(|| rng.between(1, 400)),
            replace_at: replace.then(|| rng.between(40, 300)),
            abandon_at: abandon.then(|| rng.between(40, 600)),
            guard_ours: rng.percent(25),
            distinct_parts: rng.percent(50),
            parts: u8::try_from(1 + rng.below(3)).unwrap_or(1),
        }
    }
}

/// Arranges the first resource so that the pair is likely to occur.
fn lead_to((phase, effect): Pair, wishes: &mut Wishes, mix: &mut Mix, rng: &mut Rng) {
    wishes.declare_at = 0;
    let replaces = phase == Phase::Pending;
    let leaves = phase.is_leaving();
    match effect {
        EffectKind::CreateAnchor => {}
        EffectKind::IssueToken => wishes.role = MeshRole::Node,
        EffectKind::Apply => {
            if phase == Phase::Enrolling {
                wishes.role = MeshRole::Node;
            }
            if phase == Phase::Ready {
                *mix = mix.and(Fault::Drift);
            }
            if phase != Phase::Pending {
                wishes.retire_at = wishes.retire_at.map(|at| at.max(200));
            }
        }
        EffectKind::DeregisterNode
        | EffectKind::ReleaseProtection
        | EffectKind::DeleteSubstrate
        | EffectKind::DeleteAnchor => {
            if effect == EffectKind::DeregisterNode {
                wishes.role = MeshRole::Node;
            }
            if effect == EffectKind::ReleaseProtection {
                wishes.guard_ours = true;
            }
            if replaces {
                wishes.replace_at = Some(rng.between(40, 160));
                wishes.retire_at = wishes.retire_at.map(|at| at.max(300));
            }
            if leaves {
                wishes.retire_at = Some(rng.between(30, 220));
                wishes.abandon_at = None;
            }
        }
    }
}
