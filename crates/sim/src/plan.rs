//! What one seed decides before a life begins.

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::verdict::EffectKind;

use crate::fault::{Fault, Mix};
use crate::rng::Rng;

/// A moment of simulated time, in milliseconds.
pub type Tick = i64;

/// How long a lease runs.
pub const LEASE: Tick = 40;
/// How long a request may outlive its driver's lease.
pub const REQUEST_BOUND: Tick = 10;
/// How long a well-behaved driver works on one step.
pub const STEP_DEADLINE: Tick = 25;
/// The longest rest in a passing phase.
pub const INTERVAL: Tick = 25;
/// When the last fault may happen.
pub const FAULTS_END: Tick = 420;
/// When a life that nobody disturbs any more must have ended as wished.
pub const GIVE_UP: Tick = 6_000;

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

/// What can strike a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// The driver dies before the verb.
    CrashBefore,
    /// The driver dies after the verb and before the commit.
    CrashAfter,
    /// The verb is done and its answer is lost.
    AnswerLost,
    /// The driver sleeps beyond its lease and then does the verb.
    LateDriver,
}

impl Strike {
    /// Every strike.
    pub const ALL: [Self; 4] =
        [Self::CrashBefore, Self::CrashAfter, Self::AnswerLost, Self::LateDriver];

    /// Its name in coverage.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash before",
            Self::CrashAfter => "crash after",
            Self::AnswerLost => "answer lost",
            Self::LateDriver => "late driver",
        }
    }
}

/// The wishes and circumstances of one resource.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Whether a node belongs to it.
    pub role: MeshRole,
    /// When it is declared.
    pub declare_at: Tick,
    /// When its deletion is asked for.
    pub retire_at: Option<Tick>,
    /// When a new generation is asked for.
    pub replace_at: Option<Tick>,
    /// When it is given up.
    pub abandon_at: Option<Tick>,
    /// Whether we guard its XR ourselves.
    pub guard_ours: bool,
    /// Whether the names of its children tell one XR from the next of its name.
    pub distinct_parts: bool,
    /// How many children its XR composes.
    pub parts: u8,
}

/// What one seed decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One per resource; all share one ProviderConfig.
    pub wishes: Vec<Wishes>,
    /// How many drivers there are.
    pub drivers: usize,
    /// The faults this life may meet.
    pub mix: Mix,
    /// The strike this life insists on, so that every pair meets every strike.
    pub target: (Pair, Strike),
    /// When faults end.
    pub faults_end: Tick,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64, rng: &mut Rng) -> Self {
        let cells = PAIRS.len() * Strike::ALL.len();
        let cell = usize::try_from(seed % u64::try_from(cells).unwrap_or(1)).unwrap_or(0);
        let target = (PAIRS[cell / Strike::ALL.len()], Strike::ALL[cell % Strike::ALL.len()]);
        let mut mix = Mix::draw(rng);
        let count = match rng.below(10) {
            0..=5 => 1,
            6..=8 => 2,
            _ => 3,
        };
        let mut wishes: Vec<Wishes> = (0..count).map(|_| Wishes::draw(rng)).collect();
        lead_to(target.0, &mut wishes[0], &mut mix, rng);
        let drivers = 2 + usize::from(rng.percent(40));
        let faults_end = rng.between(60, FAULTS_END);
        Self { wishes, drivers, mix, target, faults_end }
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
