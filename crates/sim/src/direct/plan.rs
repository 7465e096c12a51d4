//! What one seed decides before a run begins.

use usher_domain::direct::phase::Phase;
use usher_domain::direct::verdict::EffectKind;

use crate::base::Course;
use crate::clock::{FAULTS_END, Tick};
use crate::direct::fault::Fault;
use crate::fault::Mix;
use crate::injected_fault::{self, InjectedFault};
use crate::rng::Rng;

/// A pair of the transition table: a verb and the phase it leads to.
pub type Pair = (Phase, EffectKind);

/// Every pair that occurs in the transition table.
pub const PAIRS: [Pair; 14] = [
    (Phase::Pending, EffectKind::AddFinalizer),
    (Phase::Creating, EffectKind::AddFinalizer),
    (Phase::Ready, EffectKind::AddFinalizer),
    (Phase::Pending, EffectKind::Stamp),
    (Phase::Creating, EffectKind::Stamp),
    (Phase::Ready, EffectKind::Stamp),
    (Phase::Creating, EffectKind::Create),
    (Phase::Pending, EffectKind::Update),
    (Phase::Creating, EffectKind::Update),
    (Phase::Ready, EffectKind::Update),
    (Phase::Deleting, EffectKind::Delete),
    (Phase::Deleted, EffectKind::Delete),
    (Phase::Deleting, EffectKind::RemoveFinalizer),
    (Phase::Deleted, EffectKind::RemoveFinalizer),
];

/// The wishes and circumstances of one object.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// When it is created.
    pub create_at: Tick,
    /// When its deletion is requested.
    pub delete_at: Option<Tick>,
    /// Whether its parent is named by its identity.
    pub external: bool,
    /// Which project it lies in.
    pub project: u64,
    /// What it is called there.
    pub member: u64,
    /// Whether it refers to a configuration.
    pub config: bool,
    /// The text of its deletion policy.
    pub policy: Option<&'static str>,
    /// The object that it became.
    pub object: Option<u64>,
}

/// What one seed decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One per object.
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
            0..=4 => 1,
            5..=7 => 2,
            _ => 3,
        };
        let mut wishes: Vec<Wishes> = (0..count).map(|member| Wishes::draw(member, rng)).collect();
        if mix.has(Fault::SameIdentity) && wishes.len() > 1 {
            wishes[1].member = wishes[0].member;
            wishes[1].project = wishes[0].project;
        }
        lead_to(PAIRS[target.0], &mut wishes[0], &mut mix, rng);
        // A late action of one driver is preempted by what another has done since; so that it is
        // carried out all the same, some runs have no other driver.
        let again = matches!(PAIRS[target.0].1, EffectKind::Update | EffectKind::Delete);
        let alone = again && target.1 == InjectedFault::LateDriver && rng.percent(60);
        let drivers = if alone { 1 } else { 2 + usize::from(rng.percent(40)) };
        let faults_end = rng.between(60, FAULTS_END);
        Self { wishes, course: Course { drivers, mix, target, faults_end } }
    }
}

impl Wishes {
    fn draw(member: u64, rng: &mut Rng) -> Self {
        let policies = [None, None, Some("hold"), Some("release-with-record"), Some("abandon")];
        let policy = rng.pick(&policies);
        Self {
            create_at: rng.between(0, 40),
            delete_at: rng.percent(80).then(|| rng.between(1, 380)),
            external: rng.percent(25),
            project: rng.below(2),
            member,
            config: rng.percent(60),
            policy,
            object: None,
        }
    }
}

/// Arranges the first object so that the pair is likely to occur.
fn lead_to((phase, effect): Pair, wishes: &mut Wishes, mix: &mut Mix, rng: &mut Rng) {
    wishes.create_at = 0;
    let later = |wishes: &mut Wishes| wishes.delete_at = wishes.delete_at.map(|at| at.max(260));
    match effect {
        EffectKind::AddFinalizer | EffectKind::Stamp => {
            if phase != Phase::Pending {
                later(wishes);
                *mix = mix.and(Fault::FinalizerStripped).and(Fault::StampStripped);
            }
        }
        EffectKind::Create => {}
        EffectKind::Update => {
            later(wishes);
            *mix = mix.and(Fault::SpecEdited).and(Fault::CloudChanged);
            if phase == Phase::Pending {
                *mix = mix.and(Fault::LedgerLost);
                wishes.delete_at = None;
            }
            if phase == Phase::Creating {
                *mix = mix.and(Fault::OperationSlow);
            }
        }
        EffectKind::Delete | EffectKind::RemoveFinalizer => {
            wishes.delete_at = Some(rng.between(30, 220));
            wishes.policy = wishes.policy.filter(|it| *it != "abandon");
            if phase == Phase::Deleted {
                let back = effect == EffectKind::RemoveFinalizer;
                let fault = if back { Fault::Restored } else { Fault::HeldUp };
                *mix = mix.and(fault).without(Fault::StampForged).without(Fault::ObjectsAbsent);
                wishes.delete_at = Some(rng.between(6, 16));
                wishes.external = true;
                wishes.config = false;
            }
        }
    }
}
