//! What one seed decides before a run begins: the objects, their users, and what people request.

use usher_domain::usage::attempt::Propagation;
use usher_domain::usage::facts::Resolve;
use usher_domain::usage::phase::Phase;
use usher_domain::usage::reference::{Selection, UsageKind};
use usher_domain::usage::verdict::EffectKind;

use crate::base::Course;
use crate::clock::{FAULTS_END, Tick};
use crate::fault::Mix;
use crate::injected_fault;
use crate::rng::Rng;
use crate::usage::fault::Fault;

/// A pair of the transition table: a verb and the phase it leads to.
pub type Pair = (Phase, EffectKind);

/// Every pair that occurs in the transition table.
pub const PAIRS: [Pair; 23] = [
    (Phase::Pending, EffectKind::AddFinalizer),
    (Phase::Protected, EffectKind::AddFinalizer),
    (Phase::Pending, EffectKind::Mark),
    (Phase::Protected, EffectKind::Mark),
    (Phase::Pending, EffectKind::Yield),
    (Phase::Protected, EffectKind::Yield),
    (Phase::Releasing, EffectKind::Yield),
    (Phase::Pending, EffectKind::Unblock),
    (Phase::Protected, EffectKind::Unblock),
    (Phase::Pending, EffectKind::Unmark),
    (Phase::Protected, EffectKind::Unmark),
    (Phase::Idle, EffectKind::Unmark),
    (Phase::Releasing, EffectKind::Unmark),
    (Phase::Pending, EffectKind::HandOver),
    (Phase::Protected, EffectKind::HandOver),
    (Phase::Idle, EffectKind::HandOver),
    (Phase::Releasing, EffectKind::HandOver),
    (Phase::Pending, EffectKind::Replay),
    (Phase::Protected, EffectKind::Replay),
    (Phase::Idle, EffectKind::Replay),
    (Phase::Releasing, EffectKind::Replay),
    (Phase::Released, EffectKind::Retire),
    (Phase::Released, EffectKind::RemoveFinalizer),
];

/// A lifetime longer than any run.
pub const LASTING: Tick = 1_000_000;

/// A thing that a Usage may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// A database: used.
    Database(u8),
    /// An app: uses, and may be used.
    App(u8),
    /// A group: owns.
    Group,
}

/// How a Usage refers to things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refer {
    /// By name.
    Name(Thing),
    /// By a label that several of the same kind carry.
    Label(Thing, Selection),
}

/// The owner of a Usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongs {
    /// None.
    None,
    /// Its own user, which waits for it.
    User,
    /// The group, which waits for it.
    Group,
}

/// One Usage as it is declared.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// When.
    pub at: Tick,
    /// Which of the two kinds.
    pub kind: UsageKind,
    /// What is used.
    pub of: Refer,
    /// Who uses it.
    pub by: Option<Refer>,
    /// How often it is resolved.
    pub resolve: Resolve,
    /// Whether a denied deletion is repeated.
    pub replay: bool,
    /// Its owner.
    pub belongs: Belongs,
    /// When it refers to something else, and to what.
    pub edit: Option<(Tick, Refer)>,
    /// When its deletion is requested.
    pub delete_at: Option<Tick>,
}

/// One object and what people request of it.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Which.
    pub thing: Thing,
    /// When it is created; never if that is long ago enough to be forgotten.
    pub at: Option<Tick>,
    /// Whether the group owns it, and waits for it.
    pub owned: Option<bool>,
    /// How long its deletion takes.
    pub hold_lease: Tick,
    /// When its deletion is requested, and how.
    pub delete_at: Option<(Tick, Propagation)>,
}

/// What one seed decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The objects.
    pub wanted: Vec<Wanted>,
    /// The Usages.
    pub declared: Vec<Declared>,
    /// What is broken out although it is in use, and when.
    pub broken_out: Option<(Tick, Thing)>,
    /// What is made again soon after it is gone.
    pub returns: Option<Thing>,
    /// Whether in the end everything is deleted.
    pub teardown: bool,
    /// How long a denied deletion is remembered.
    pub lifetime: Tick,
    /// How many webhooks there are.
    pub replicas: usize,
    /// What every world draws.
    pub course: Course,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64, rng: &mut Rng) -> Self {
        let target = injected_fault::target(seed, PAIRS.len());
        let mix = Mix::draw::<Fault>(rng);
        let things = [
            Thing::Group,
            Thing::Database(0),
            Thing::Database(1),
            Thing::Database(2),
            Thing::App(0),
            Thing::App(1),
            Thing::App(2),
        ];
        let wanted = things.map(|thing| Wanted::draw(thing, rng)).to_vec();
        let count = 1 + rng.below(4);
        let declared = (0..count.max(2)).map(|_| Declared::draw(rng)).collect();
        let drivers = 2 + usize::from(rng.percent(40));
        let faults_end = rng.between(160, FAULTS_END);
        let lifetime = if rng.percent(12) { rng.between(20, 120) } else { LASTING };
        let course = Course { drivers, mix, target, faults_end };
        // What runs out soon is requested again and again after a denial: only where all
        // is deleted does that come to an end.
        let teardown = rng.percent(85) || lifetime < LASTING;
        let replicas = 1 + usize::try_from(rng.below(3)).unwrap_or(0);
        let mut plan = Self {
            wanted,
            declared,
            broken_out: None,
            returns: None,
            teardown,
            lifetime,
            replicas,
            course,
        };
        plan.lead_to(PAIRS[target.0], rng);
        plan
    }

    /// A plan of nothing: the caller fills the world, without faults.
    pub fn nothing(seed: u64) -> Self {
        let target = injected_fault::target(seed, PAIRS.len());
        let course = Course { drivers: 2, mix: Mix::default(), target, faults_end: 0 };
        Self {
            wanted: vec![],
            declared: vec![],
            broken_out: None,
            returns: None,
            teardown: false,
            lifetime: LASTING,
            replicas: 2,
            course,
        }
    }

    fn want(&mut self, thing: Thing) -> Option<&mut Wanted> {
        self.wanted.iter_mut().find(|it| it.thing == thing)
    }

    /// Arranges the first Usages so that the pair is likely to occur.
    fn lead_to(&mut self, (phase, effect): Pair, rng: &mut Rng) {
        self.course.faults_end = self.course.faults_end.max(300);
        self.simple(0, rng);
        match effect {
            EffectKind::AddFinalizer => {
                if phase == Phase::Protected {
                    self.course.mix = self.course.mix.and(Fault::FinalizerStripped);
                }
            }
            EffectKind::Mark => {
                if phase == Phase::Protected {
                    self.second_user(rng);
                    self.end_use(rng);
                }
            }
            EffectKind::Yield => self.wait_on_the_way_out(phase, rng),
            EffectKind::Unblock => self.own_what_is_used(phase, rng),
            EffectKind::Unmark => self.leave(phase, rng),
            EffectKind::Replay => {
                self.deny(rng);
                // A driver that is late finds what is still being deleted, or what was made again
                // under the name.
                let hold_lease = if rng.percent(80) { rng.between(40, 120) } else { 0 };
                if hold_lease == 0 {
                    self.course.mix = self.course.mix.and(Fault::Recreated);
                    self.returns = Some(Thing::Database(0));
                }
                if let Some(database) = self.want(Thing::Database(0)) {
                    database.hold_lease = hold_lease;
                }
                self.leave(phase, rng);
            }
            EffectKind::HandOver => {
                self.second_user(rng);
                self.deny(rng);
                self.leave(phase, rng);
                // The record that names it has to let go first, and often that is the second
                // one.
                if rng.percent(75) {
                    self.swap_users();
                }
            }
            EffectKind::Retire => self.end_use(rng),
            EffectKind::RemoveFinalizer => {}
        }
    }

    /// The first app uses the first database, and nothing else happens to them.
    fn simple(&mut self, place: usize, rng: &mut Rng) {
        for thing in [Thing::Database(0), Thing::App(0), Thing::App(1)] {
            if let Some(it) = self.want(thing) {
                *it = Wanted { at: Some(0), owned: None, delete_at: None, ..*it };
            }
        }
        self.declared[place] = Declared {
            at: rng.between(1, 10),
            of: Refer::Name(Thing::Database(0)),
            by: Some(Refer::Name(Thing::App(0))),
            resolve: Resolve::Once,
            replay: true,
            belongs: Belongs::None,
            edit: None,
            delete_at: None,
            ..self.declared[place]
        };
    }

    /// The second app uses the first database, too.
    fn second_user(&mut self, rng: &mut Rng) {
        self.simple(1, rng);
        self.declared[1].at = rng.between(20, 40);
        self.declared[1].by = Some(Refer::Name(Thing::App(1)));
    }

    /// What is planned for the first two Usages and their users changes places.
    fn swap_users(&mut self) {
        let [first, second, ..] = &mut self.declared[..] else { return };
        std::mem::swap(&mut first.edit, &mut second.edit);
        std::mem::swap(&mut first.resolve, &mut second.resolve);
        let goes = self.want(Thing::App(0)).and_then(|it| it.delete_at.take());
        if let Some(app) = self.want(Thing::App(1)) {
            app.delete_at = goes;
        }
    }

    /// The first app goes.
    fn end_use(&mut self, rng: &mut Rng) {
        let at = rng.between(110, 170);
        if let Some(app) = self.want(Thing::App(0)) {
            app.delete_at = Some((at, Propagation::Background));
        }
    }

    /// The first database is deleted while it is in use.
    fn deny(&mut self, rng: &mut Rng) {
        let at = rng.between(70, 100);
        if let Some(database) = self.want(Thing::Database(0)) {
            database.delete_at = Some((at, Propagation::Background));
        }
        self.lifetime = LASTING;
    }

    /// The first Usage lets go of the first database while, or by, being in this phase.
    fn leave(&mut self, phase: Phase, rng: &mut Rng) {
        let at = rng.between(120, 180);
        let elsewhere = if phase == Phase::Pending { 9 } else { 1 };
        match phase {
            Phase::Pending | Phase::Protected => {
                if let Some(it) = self.want(Thing::Database(1)) {
                    *it = Wanted { at: Some(0), owned: None, delete_at: None, ..*it };
                }
                let to = Refer::Name(Thing::Database(elsewhere));
                self.declared[0].edit = Some((at, to));
            }
            Phase::Idle => {
                self.declared[0].resolve = Resolve::Always;
                self.end_use(rng);
            }
            Phase::Releasing | Phase::Released => self.end_use(rng),
        }
    }

    /// The group owns the first database and is deleted while that is in use.
    fn own_what_is_used(&mut self, phase: Phase, rng: &mut Rng) {
        let at = rng.between(90, 150);
        if let Some(group) = self.want(Thing::Group) {
            group.at = Some(0);
            group.delete_at = Some((at, Propagation::Foreground));
        }
        if let Some(database) = self.want(Thing::Database(0)) {
            (database.at, database.owned) = (Some(1), Some(true));
        }
        // Where all databases are meant and one of them was broken out, protection is not complete.
        if phase == Phase::Pending {
            self.declared[0].of = Refer::Label(Thing::Database(0), Selection::All);
            self.declared[0].at = 8;
            for number in 1..=2 {
                if let Some(other) = self.want(Thing::Database(number)) {
                    *other = Wanted { at: Some(2), owned: None, delete_at: None, ..*other };
                }
            }
            self.broken_out = Some((at - rng.between(10, 40), Thing::Database(1)));
        }
    }

    /// The first Usage belongs to its waiting owner.
    fn wait_on_the_way_out(&mut self, phase: Phase, rng: &mut Rng) {
        let at = rng.between(100, 160);
        let hold_lease = rng.between(30, 80);
        if phase == Phase::Releasing {
            self.declared[0].belongs = Belongs::Group;
            self.declared[0].by = None;
            if let Some(group) = self.want(Thing::Group) {
                group.at = Some(0);
                group.delete_at = Some((at, Propagation::Foreground));
            }
            return;
        }
        self.declared[0].belongs = Belongs::User;
        if phase == Phase::Pending {
            self.declared[0].of = Refer::Name(Thing::Database(9));
        }
        if let Some(app) = self.want(Thing::App(0)) {
            app.hold_lease = hold_lease;
            app.delete_at = Some((at, Propagation::Foreground));
        }
    }
}

impl Wanted {
    fn draw(thing: Thing, rng: &mut Rng) -> Self {
        let asked = match thing {
            Thing::Database(_) => 60,
            Thing::App(_) | Thing::Group => 45,
        };
        let delete = rng.percent(asked);
        let at = rng.between(30, 350);
        let policy = policy(rng);
        Self {
            thing,
            at: rng.percent(92).then(|| rng.between(0, 25)),
            owned: (thing != Thing::Group && rng.percent(35)).then(|| rng.percent(70)),
            hold_lease: if rng.percent(50) { 0 } else { rng.between(3, 50) },
            delete_at: delete.then_some((at, policy)),
        }
    }
}

impl Declared {
    fn draw(rng: &mut Rng) -> Self {
        let number = |rng: &mut Rng| u8::try_from(rng.below(3)).unwrap_or(0);
        let selection =
            |rng: &mut Rng| if rng.percent(50) { Selection::First } else { Selection::All };
        let (first, second) = (number(rng), number(rng));
        let chained = rng.percent(25) && first != second;
        let of = match (chained, rng.percent(70)) {
            (true, _) => Refer::Name(Thing::App(second)),
            (false, true) => Refer::Name(Thing::Database(number(rng))),
            (false, false) => Refer::Label(Thing::Database(0), selection(rng)),
        };
        let by = match rng.below(10) {
            0 | 1 => None,
            2 => Some(Refer::Name(Thing::Group)),
            3 if !chained => Some(Refer::Label(Thing::App(0), selection(rng))),
            _ => Some(Refer::Name(Thing::App(first))),
        };
        let belongs = match rng.below(10) {
            0..=3 => Belongs::None,
            4..=6 => Belongs::User,
            _ => Belongs::Group,
        };
        let delete = rng.percent(25);
        let kind = if rng.percent(80) { UsageKind::Usage } else { UsageKind::ClusterUsage };
        Self {
            at: rng.between(0, 120),
            kind,
            of,
            by,
            resolve: if rng.percent(75) { Resolve::Once } else { Resolve::Always },
            replay: rng.percent(if by.is_some() { 85 } else { 15 }),
            belongs,
            edit: None,
            delete_at: delete.then(|| rng.between(60, 380)),
        }
    }
}

/// How a deletion is requested.
pub fn policy(rng: &mut Rng) -> Propagation {
    match rng.below(10) {
        0..=5 => Propagation::Background,
        6..=8 => Propagation::Foreground,
        _ => Propagation::Orphan,
    }
}
