//! What joins the worlds: parts of an XR, and the records behind them.

use std::cell::RefCell;

use usher_domain::direct::phase::Phase as DirectPhase;
use usher_domain::direct::reference::{Named, Reference};
use usher_domain::fleet::phase::Phase as MachinePhase;
use usher_domain::object::id::ResourceId;
use usher_domain::usage::aggregate::Spec as UsageSpec;
use usher_domain::usage::attempt::{COLLECTOR, Propagation};
use usher_domain::usage::facts::Resolve;
use usher_domain::usage::phase::Phase as UsagePhase;
use usher_domain::usage::reference::{ObjectKey, Pick, Reference as UsageReference, UsageKind};
use uuid::Uuid;

use crate::broker::execute::Sender;
use crate::broker::outside::{Kind, Object as Part};
use crate::clock::{LEASE, Tick};
use crate::combined::breakage::Breakage;
use crate::direct::model::Spec as DirectSpec;
use crate::direct::people::parent_name;
use crate::direct::state::{NAMESPACE, Wanted};
use crate::rng::Rng;
use crate::sim_world::SimWorld as _;
use crate::usage::admission::DeletionRequest;
use crate::usage::outside::{GROUP, USAGES, key, object};
use crate::words::words;
use crate::{broker, direct, fleet, usage};

words! {
    /// What the worlds are held to together.
    Checker {
        /// When a resource is `Deleted`, its machine is unbound and its cloud object is gone.
        GoneBelow = "deleted-means-gone-below",
    }
}

/// The kind of an XR's part that is a machine.
const MACHINE: u8 = 0;
/// The kind of an XR's part that is a direct resource.
const MEMBER: u8 = 1;
/// How long after the fault phase an object whose deletion was requested may still be there.
const HELD_UP: Tick = 150;
/// How long an object stays in deletion while its controller works.
const HELD: Tick = Tick::MAX / 2;

/// The worlds, and what joins them.
pub struct Worlds {
    /// The broker's world.
    pub broker: RefCell<broker::state::State>,
    /// The Usages' world.
    pub usage: RefCell<usage::state::State>,
    /// The world of direct resources.
    pub direct: RefCell<direct::state::State>,
    /// The fleet's world.
    pub fleet: RefCell<fleet::state::State>,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

impl Worlds {
    /// When people repair what the fault phase broke.
    fn restored_at(&self) -> Tick {
        let usage = self.usage.borrow().base.course.faults_end;
        usage.max(self.direct.borrow().base.course.faults_end) + HELD_UP
    }
}

/// The parts that have a record behind them, and chance.
pub struct Ties {
    ties: Vec<Tie>,
    rng: Rng,
}

/// One part of an XR.
struct Tie {
    /// The resource whose XR it is a part of.
    resource: usize,
    /// The part.
    part: u64,
    /// The same object as Usages observe it.
    place: u64,
    /// The record behind it.
    backing: Behind,
    /// Whether the part is gone.
    over: bool,
    /// Whether the record behind it is finished.
    left: bool,
}

/// The record behind a part.
enum Behind {
    /// A machine, once one was free.
    Machine(Option<usize>),
    /// A direct resource.
    Member(u64),
    /// A Usage.
    Usage,
}

impl Ties {
    /// No part yet.
    pub const fn new(rng: Rng) -> Self {
        Self { ties: vec![], rng }
    }

    /// Whether a part is being deleted, or people have not done theirs yet.
    pub fn is_restless(&self, worlds: &Worlds, tick: Tick) -> bool {
        if tick <= worlds.restored_at() + 2 * LEASE {
            return true;
        }
        let usage = worlds.usage.borrow();
        let broker = worlds.broker.borrow();
        let tied = |uid| self.ties.iter().any(|it| it.part == uid);
        let leaving =
            self.ties.iter().filter(|it| !it.over).any(|it| {
                usage.outside.by_uid(it.place).is_none_or(|found| found.deleting.is_some())
            });
        leaving || parts(&broker).any(|it| !tied(it.uid))
    }

    /// One tick of what joins the worlds.
    pub fn couple(&mut self, worlds: &Worlds, tick: Tick) {
        restore(worlds, tick);
        self.begin(worlds, tick);
        self.pass_deletions_on(worlds, tick);
        for place in 0..self.ties.len() {
            if !self.ties[place].over {
                self.follow(place, worlds, tick);
            }
        }
        self.check(worlds);
    }

    /// A new part gets its record, and can be deleted only through admission.
    fn begin(&mut self, worlds: &Worlds, tick: Tick) {
        let new: Vec<(usize, Part)> = {
            let broker = worlds.broker.borrow();
            let tied = |uid| self.ties.iter().any(|it| it.part == uid);
            let fresh = parts(&broker).filter(|it| !tied(it.uid));
            fresh.filter_map(|it| Some((resource(it)?, it.clone()))).collect()
        };
        for (resource, part) in new {
            worlds.broker.borrow_mut().outside.guarded.insert(part.uid);
            if let Some((place, backing)) = raise(worlds, &part, tick) {
                self.ties.push(Tie {
                    resource,
                    part: part.uid,
                    place,
                    left: matches!(backing, Behind::Usage),
                    backing,
                    over: false,
                });
            }
        }
    }

    /// Every deletion in the broker's world passes admission where Usages are.
    fn pass_deletions_on(&mut self, worlds: &Worlds, tick: Tick) {
        let mut asked = std::mem::take(&mut worlds.broker.borrow_mut().outside.denied);
        asked.sort_unstable();
        asked.dedup();
        for part in asked {
            let Some(tie) = self.ties.iter().find(|it| it.part == part) else {
                // No controller works on it yet: it is removed at once.
                let mut broker = worlds.broker.borrow_mut();
                broker.outside.guarded.remove(&part);
                broker.outside.let_go(part, tick, tick);
                continue;
            };
            // A deleted Usage would wait for its user, and its XR with it: that is not done.
            if matches!(tie.backing, Behind::Usage) && has_owner(worlds, part) {
                continue;
            }
            if worlds.breakage == Some(Breakage::BypassAdmission) {
                worlds.usage.borrow_mut().begin_departure(tie.place, Propagation::Background);
            } else if self.rng.percent(30) {
                let asked = DeletionRequest {
                    requester: COLLECTOR,
                    propagation: Propagation::Background,
                    dry_run: false,
                };
                let _ = worlds.usage.borrow_mut().delete(tie.place, asked);
            }
        }
    }

    /// One part and the record behind it.
    fn follow(&mut self, at: usize, worlds: &Worlds, tick: Tick) {
        let tie = &mut self.ties[at];
        let deleting =
            worlds.usage.borrow().outside.by_uid(tie.place).map(|it| it.deleting.is_some());
        match deleting {
            None => {
                worlds.broker.borrow_mut().outside.let_go(tie.part, tick, tick);
                tie.over = true;
            }
            Some(false) => {
                if tie.backing.is_ready(worlds, tie.place) {
                    worlds.broker.borrow_mut().outside.settle(tie.part, tick);
                }
                tie.backing.take_machine(worlds, tie.part);
            }
            Some(true) => {
                {
                    let mut broker = worlds.broker.borrow_mut();
                    broker.outside.guarded.remove(&tie.part);
                    broker.outside.mark(tie.part, tick, tick);
                }
                tie.backing.ask_to_go(worlds, tie.part);
                tie.left |= tie.backing.is_gone(worlds, tie.part);
                if tie.left || worlds.breakage == Some(Breakage::DropFinalizers) {
                    let mut usage = worlds.usage.borrow_mut();
                    if usage.outside.by_uid(tie.place).is_some_and(|it| it.hold_lease > 0) {
                        usage.write(tie.place, |it| it.hold_lease = 0);
                    }
                }
            }
        }
    }

    /// A resource that is `Deleted` has left nothing behind in any world.
    fn check(&self, worlds: &Worlds) {
        let left = self.ties.iter().find(|it| {
            let broker = worlds.broker.borrow();
            let phase = broker.store.resources[it.resource].record.state.phase();
            let ended = phase == usher_domain::broker::phase::Phase::Deleted;
            ended && !broker.was_abandoned(it.resource) && it.over && !it.left
        });
        if let Some(tie) = left {
            let Tie { resource, part, .. } = tie;
            let kind = tie.backing.kind();
            let what = format!("resource {resource} is Deleted, its {kind} {part} exists");
            worlds.broker.borrow_mut().wrong(Checker::GoneBelow, what);
        }
    }
}

impl Behind {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Machine(_) => "machine",
            Self::Member(_) => "member",
            Self::Usage => "Usage",
        }
    }

    fn is_ready(&self, worlds: &Worlds, place: u64) -> bool {
        match self {
            Self::Machine(row) => row.is_some_and(|row| worlds.fleet.borrow().is_ready(row)),
            Self::Member(uid) => {
                let direct = worlds.direct.borrow();
                let row = direct.store.of(*uid).map(|it| &direct.store.resources[it]);
                row.is_some_and(|it| it.record.state.phase() == DirectPhase::Ready)
            }
            Self::Usage => {
                let usage = worlds.usage.borrow();
                let body = usage.outside.by_uid(place).and_then(|it| it.body.as_ref());
                body.is_some_and(|it| it.status.phase == UsagePhase::Protected)
            }
        }
    }

    /// A machine's part takes the first machine that is free, and another one if that failed or was
    /// given to a cluster that is right about it.
    fn take_machine(&mut self, worlds: &Worlds, part: u64) {
        let Self::Machine(row) = self else { return };
        let mut fleet = worlds.fleet.borrow_mut();
        let exists = |fleet: &fleet::state::State, row: usize| {
            let phase = fleet.store.rows[row].record.state.phase();
            !matches!(phase, MachinePhase::Failed | MachinePhase::Gone)
        };
        let holder = holder(part);
        let holds = |row: usize| fleet.store.rows[row].record.state.fields().holder == Some(holder);
        if row.is_none_or(|row| !exists(&fleet, row) || !holds(row)) {
            if let Some(row) = *row {
                fleet.dismiss(row, holder);
            }
            let rows = 0..fleet.store.rows.len();
            *row =
                rows.into_iter().find(|row| exists(&fleet, *row) && fleet.hold_for(*row, holder));
        }
    }

    fn ask_to_go(&self, worlds: &Worlds, part: u64) {
        match self {
            Self::Machine(Some(row)) if worlds.breakage != Some(Breakage::KeepMachine) => {
                let mut fleet = worlds.fleet.borrow_mut();
                if fleet.store.rows[*row].record.state.fields().holder == Some(holder(part)) {
                    fleet.dismiss(*row, holder(part));
                }
            }
            Self::Member(uid) => worlds.direct.borrow_mut().ask_to_go(*uid),
            Self::Machine(_) | Self::Usage => {}
        }
    }

    /// A machine that another resource holds by now is gone for us.
    fn is_gone(&self, worlds: &Worlds, part: u64) -> bool {
        match self {
            Self::Machine(row) => row.is_none_or(|row| {
                let fleet = worlds.fleet.borrow();
                let held = fleet.store.rows[row].record.state.fields().holder;
                held.is_some_and(|it| it != holder(part)) || fleet.is_gone(row)
            }),
            Self::Member(uid) => worlds.direct.borrow().is_gone(*uid),
            Self::Usage => true,
        }
    }
}

/// Creates the record behind a part; nothing if that is not possible now.
fn raise(worlds: &Worlds, part: &Part, tick: Tick) -> Option<(u64, Behind)> {
    let mut usage = worlds.usage.borrow_mut();
    let held = |kind, name: &str| {
        let mut held = object(key(kind, name), "", tick);
        held.hold_lease = HELD;
        held
    };
    match part.kind {
        Kind::Part(MACHINE) => {
            let place = usage.add(held("Machine", &part.name))?;
            Some((place, Behind::Machine(None)))
        }
        Kind::Part(MEMBER) => {
            let place = usage.add(held("Member", &part.name))?;
            let uid = worlds.direct.borrow_mut().add(member(part));
            Some((place, Behind::Member(uid)))
        }
        Kind::Part(_) => {
            let broker = worlds.broker.borrow();
            let xr = broker.outside.by_uid(part.owner?)?.xr.as_ref()?;
            let name = |kind| xr.refs.iter().find(|it| it.0 == kind).map(|it| it.1.as_str());
            let spec = uses(name(MACHINE)?, name(MEMBER)?);
            usage.declare(&part.name, spec, (UsageKind::Usage, vec![]));
            let key = ObjectKey {
                group: USAGES.to_owned(),
                kind: UsageKind::Usage.to_string(),
                namespace: "ns".to_owned(),
                name: part.name.clone(),
            };
            let place = usage.outside.under(&key)?.uid;
            Some((place, Behind::Usage))
        }
        Kind::Anchor | Kind::Xr | Kind::Config | Kind::Secret => None,
    }
}

/// After the fault phase people revoke what they allowed as an emergency, and restore the project
/// that others are to be members of.
fn restore(worlds: &Worlds, tick: Tick) {
    if tick != worlds.restored_at() {
        return;
    }
    let mut usage = worlds.usage.borrow_mut();
    let with_note = usage.outside.objects.iter().filter(|it| it.note.is_some());
    for uid in with_note.map(|it| it.uid).collect::<Vec<_>>() {
        usage.write(uid, |it| it.note = None);
    }
    let mut direct = worlds.direct.borrow_mut();
    let (name, external) = (parent_name(0), "projects/p0".to_owned());
    if !direct.outside.cloud.containers.contains(&external) {
        direct.outside.cloud.containers.push(external.clone());
        direct.add_neighbour(&external);
    }
    if !direct.outside.parents.iter().any(|it| it.name == name) {
        direct.add_parent(&name, &external);
    }
    direct.outside.touch_parent(&name, tick);
}

/// A membership in the first project, under a name of its own.
fn member(part: &Part) -> Wanted {
    let parent = Reference::Named(Named { namespace: NAMESPACE.to_owned(), name: parent_name(0) });
    let spec = DirectSpec { parent, config: None, member: format!("part{}", part.uid), wanted: 1 };
    Wanted { name: part.name.clone(), spec, policy: None }
}

/// The member uses the machine.
fn uses(machine: &str, member: &str) -> UsageSpec {
    let reference = |kind: &str, name: &str| UsageReference {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: "ns".to_owned(),
        pick: Pick::Name(name.to_owned()),
    };
    UsageSpec {
        of: reference("Machine", machine),
        by: Some(reference("Member", member)),
        reason: None,
        resolve: Resolve::Once,
        replay: true,
    }
}

fn parts(broker: &broker::state::State) -> impl Iterator<Item = &Part> {
    broker.outside.objects.iter().filter(|it| matches!(it.kind, Kind::Part(_)))
}

fn has_owner(worlds: &Worlds, part: u64) -> bool {
    let broker = worlds.broker.borrow();
    let owner = broker.outside.by_uid(part).and_then(|it| it.owner);
    owner.is_some_and(|it| broker.outside.by_uid(it).is_some())
}

fn resource(part: &Part) -> Option<usize> {
    match part.made_by {
        Some(Sender::Resource(resource)) => Some(resource),
        Some(Sender::Config) | None => None,
    }
}

/// A machine is held for a part: another part of the same resource is another holder.
fn holder(part: u64) -> ResourceId {
    ResourceId::from_uuid(Uuid::from_u64_pair(1, part))
}
