//! All that a plan asks of the machines and the demand, kept up to date change by change.
//!
//! Machines that are alike in everything a plan asks for are in one *lot*: same shape (offer),
//! same place (idle, speculative, or serving the same need of the same cluster at the same stage).
//! A cycle counts in lots, so that its cost follows the demand and not the number of machines. A
//! machine is known by its slot, the number of its row; the index holds no texts per machine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use usher_kernel::Timestamp;

use super::demand::Trust;
use super::intern::{Interner, put};
use super::lot::{Candidates, Cluster, Entry, Lot, NOWHERE, Place, Shape, Stage, Tie, Wanting};
use super::need::{Need, Profile};
use crate::fleet::aggregate::{CapacityType, Machine, Offer, Offering, Target};
use crate::fleet::binding::{Assignment, Binding};
use crate::fleet::ident::{ClusterId, ShardId};
use crate::fleet::money::Price;
use crate::fleet::phase::Phase;
use crate::fleet::quantity::{Quantity, Resources};

/// A machine, by the number of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// How long what is not needed is kept, by how it is paid for. All others are kept for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// For what is paid for while it exists.
    pub on_demand: Duration,
    /// For what may be preempted.
    pub spot: Duration,
}

impl Default for Windows {
    fn default() -> Self {
        Self { on_demand: Duration::from_mins(10), spot: Duration::from_mins(1) }
    }
}

/// The index of one shard.
#[derive(Clone, Debug)]
pub struct Fleet {
    owner: ShardId,
    windows: Windows,
    entries: Vec<Entry>,
    pub(super) lots: Vec<Lot>,
    free_lots: Vec<u32>,
    offers: Interner<Offering>,
    pub(super) shapes: Vec<Shape>,
    bindings: Interner<Binding>,
    pub(super) ties: Vec<Tie>,
    pub(super) profiles: Interner<Profile>,
    /// For each profile the shapes that fit.
    pub(super) candidates: Vec<Candidates>,
    resources: BTreeMap<String, u32>,
    pub(super) clusters: BTreeMap<ClusterId, u32>,
    pub(super) by_cluster: Vec<Cluster>,
    /// The machines being drained from a cluster for no other, and the number of that cluster.
    leaving: BTreeMap<u32, u32>,
    /// Idle machines by the second at which their window ends.
    due: BTreeSet<(u32, u32)>,
}

impl Fleet {
    /// An index without machines and without demand.
    pub fn new(owner: ShardId, windows: Windows) -> Self {
        Self {
            owner,
            windows,
            entries: vec![],
            lots: vec![],
            free_lots: vec![],
            offers: Interner::default(),
            shapes: vec![],
            bindings: Interner::default(),
            ties: vec![],
            profiles: Interner::default(),
            candidates: vec![],
            resources: BTreeMap::new(),
            clusters: BTreeMap::new(),
            by_cluster: vec![],
            leaving: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Notes how a row is now, or that it is gone. Machines of another shard, those that a resource
    /// holds and those in dispute are not seen.
    pub fn apply(&mut self, slot: Slot, machine: Option<&Machine>) {
        self.note_leaving(slot, machine);
        let usage = machine.and_then(|it| self.usage(it).map(|place| (it, place)));
        let Some((machine, usage)) = usage else { return self.leave(slot) };
        let since = seconds(machine.fields().phase_since);
        if self.is_counted(slot, machine, &usage) {
            return self.mark(slot, since);
        }
        self.leave(slot);
        let shape = self.shape(&machine.fields().offer);
        let place = match usage {
            MachineUse::Idle => Place::Idle,
            MachineUse::Speculative => Place::Speculative,
            MachineUse::Serving(binding, stage) => Place::Serving { tie: self.tie(binding), stage },
        };
        self.enter(slot, shape, place, since);
    }

    /// The binding behind a number.
    pub(super) fn binding(&self, tie: u32) -> Option<&Binding> {
        self.bindings.get(tie)
    }

    /// The order of two lots by what they are, independent of their numbers.
    pub(super) fn compare(&self, one: u32, other: u32) -> std::cmp::Ordering {
        let content = |lot: u32| {
            let lot = self.lots.get(lot as usize)?;
            let binding = match lot.place {
                Place::Serving { tie, .. } => self.bindings.get(tie),
                Place::Idle | Place::Speculative => None,
            };
            Some((binding, self.offers.get(lot.shape)))
        };
        content(one).cmp(&content(other))
    }

    /// The machines whose window has ended, with their lot and position in it.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = (Slot, u32, u32)> {
        let until = (seconds(now), u32::MAX);
        self.due.range(..=until).filter_map(|(_, slot)| {
            let entry = self.entries.get(*slot as usize)?;
            Some((Slot(*slot), entry.lot, entry.position))
        })
    }

    /// Whether a window has ended, so that a plan may give something back.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.due.first().is_some_and(|it| it.0 <= seconds(now))
    }

    /// The number of machines in lots.
    pub fn machines(&self) -> usize {
        self.lots.iter().map(|it| it.machines.len()).sum()
    }

    /// The bytes that the machines occupy: capacities of all tables that grow with them, the texts
    /// of bindings and offers, and nodes of trees estimated at two thirds full.
    pub fn bytes(&self) -> usize {
        let lists: usize = self.lots.iter().map(|it| it.machines.capacity() * 4).sum();
        let ties: usize = self.ties.iter().map(|it| it.lots.capacity() * 4).sum();
        let due = (self.due.len() + self.leaving.len()) * size_of::<(u32, u32)>() * 3 / 2;
        self.entries.capacity() * size_of::<Entry>()
            + self.lots.capacity() * size_of::<Lot>()
            + self.free_lots.capacity() * 4
            + self.shapes.capacity() * size_of::<Shape>()
            + self.ties.capacity() * size_of::<Tie>()
            + self.offers.bytes(|it| it.known().map_or(0, texts_of))
            + self.bindings.bytes(|it| {
                let Assignment { fingerprint, group, .. } = &it.assignment;
                it.cluster.as_str().len() + fingerprint.len() + group.len()
            })
            + lists
            + ties
            + due
    }

    /// Notes the cluster that a machine is being removed from: it is in no lot any more and still a
    /// node.
    fn note_leaving(&mut self, slot: Slot, machine: Option<&Machine>) {
        let leaves = machine.filter(|it| {
            let bound = it.phase().is_bound() && it.wanted().cluster().is_none();
            bound && self.is_mine(it)
        });
        let from = leaves.and_then(|it| it.state().binding()).map(|it| self.cluster(&it.cluster));
        let before = match from {
            Some(cluster) => self.leaving.insert(slot.0, cluster),
            None => self.leaving.remove(&slot.0),
        };
        if let Some(entry) = before.and_then(|it| self.by_cluster.get_mut(it as usize)) {
            entry.leaving -= 1;
        }
        if let Some(entry) = from.and_then(|it| self.by_cluster.get_mut(it as usize)) {
            entry.leaving += 1;
        }
    }

    /// Whether no other party has a claim to a machine.
    fn is_mine(&self, machine: &Machine) -> bool {
        let fields = machine.fields();
        fields.owner == self.owner && fields.holder.is_none() && fields.disputed.is_none()
    }

    fn usage<'a>(&self, machine: &'a Machine) -> Option<MachineUse<'a>> {
        let fields = machine.fields();
        if !self.is_mine(machine) {
            return None;
        }
        let bound = fields.state.binding().map(|it| &it.cluster);
        match (machine.phase(), &fields.wanted.target) {
            (Phase::Gone | Phase::Failed, _) => None,
            (Phase::Configured, Target::Bind(it)) if bound == Some(&it.cluster) => {
                Some(MachineUse::Serving(it, Stage::Configured))
            }
            (Phase::Configuring, Target::Bind(it)) if bound == Some(&it.cluster) => {
                Some(MachineUse::Serving(it, Stage::Joining))
            }
            (_, Target::Bind(it)) => Some(MachineUse::Serving(it, Stage::Coming)),
            (Phase::Speculative, Target::Unbound | Target::Release) => {
                Some(MachineUse::Speculative)
            }
            (Phase::Idle, Target::Unbound) => Some(MachineUse::Idle),
            (
                Phase::Creating
                | Phase::Idle
                | Phase::Configuring
                | Phase::Configured
                | Phase::Draining
                | Phase::Deleting,
                Target::Unbound | Target::Release,
            ) => None,
        }
    }

    /// Whether a machine is already in its lot.
    fn is_counted(&self, slot: Slot, machine: &Machine, usage: &MachineUse<'_>) -> bool {
        let entry = self.entries.get(slot.0 as usize);
        let Some(lot) = entry.and_then(|it| self.lots.get(it.lot as usize)) else { return false };
        let placed = match (lot.place, usage) {
            (Place::Idle, MachineUse::Idle) | (Place::Speculative, MachineUse::Speculative) => true,
            (Place::Serving { tie, stage }, MachineUse::Serving(binding, at)) => {
                stage == *at && self.bindings.get(tie) == Some(binding)
            }
            (Place::Idle | Place::Speculative | Place::Serving { .. }, _) => false,
        };
        placed && self.offers.get(lot.shape) == Some(&machine.fields().offer)
    }

    fn enter(&mut self, slot: Slot, shape: u32, place: Place, since: u32) {
        let at = slot.0 as usize;
        if self.entries.len() <= at {
            self.entries.resize(at + 1, Entry { lot: NOWHERE, position: 0, since: 0 });
        }
        let lot = self.lot(shape, place);
        let machines = &mut self.lots[lot as usize].machines;
        machines.push(slot.0);
        let position = u32::try_from(machines.len() - 1).unwrap_or(NOWHERE);
        self.entries[at] = Entry { lot, position, since };
        if let Some(due) = self.due_at(lot, since) {
            self.due.insert((due, slot.0));
        }
    }

    fn leave(&mut self, slot: Slot) {
        let Some(entry) = self.entries.get(slot.0 as usize).copied() else { return };
        if entry.lot == NOWHERE {
            return;
        }
        if let Some(due) = self.due_at(entry.lot, entry.since) {
            self.due.remove(&(due, slot.0));
        }
        self.entries[slot.0 as usize].lot = NOWHERE;
        let lot = &mut self.lots[entry.lot as usize];
        lot.machines.swap_remove(entry.position as usize);
        let (shape, place, empty) = (lot.shape, lot.place, lot.machines.is_empty());
        if let Some(moved) = lot.machines.get(entry.position as usize).copied() {
            self.entries[moved as usize].position = entry.position;
        }
        if empty {
            self.drop_lot(entry.lot, shape, place);
        }
        if let Place::Serving { tie, .. } = place {
            self.release_tie(tie);
        }
        if self.offers.give_back(shape) {
            for list in &mut self.candidates {
                list.remove(shape);
            }
        }
    }

    fn mark(&mut self, slot: Slot, since: u32) {
        let entry = self.entries[slot.0 as usize];
        if entry.since == since {
            return;
        }
        if let Some(due) = self.due_at(entry.lot, entry.since) {
            self.due.remove(&(due, slot.0));
        }
        if let Some(due) = self.due_at(entry.lot, since) {
            self.due.insert((due, slot.0));
        }
        self.entries[slot.0 as usize].since = since;
    }

    fn due_at(&self, lot: u32, since: u32) -> Option<u32> {
        let lot = self.lots.get(lot as usize).filter(|it| it.place == Place::Idle)?;
        let window = self.shapes.get(lot.shape as usize)?.window?;
        Some(since.saturating_add(window))
    }

    /// The lot of machines like these, made if there is none.
    fn lot(&mut self, shape: u32, place: Place) -> u32 {
        let found = match place {
            Place::Idle => self.shapes[shape as usize].idle,
            Place::Speculative => self.shapes[shape as usize].speculative,
            Place::Serving { tie, .. } => {
                let alike = |it: &&u32| {
                    let lot = &self.lots[**it as usize];
                    lot.shape == shape && lot.place == place
                };
                self.ties[tie as usize].lots.iter().find(alike).copied().unwrap_or(NOWHERE)
            }
        };
        if found != NOWHERE {
            return found;
        }
        let new = Lot { shape, place, machines: vec![] };
        let number = if let Some(number) = self.free_lots.pop() {
            self.lots[number as usize] = new;
            number
        } else {
            self.lots.push(new);
            u32::try_from(self.lots.len() - 1).unwrap_or(NOWHERE)
        };
        match place {
            Place::Idle => self.shapes[shape as usize].idle = number,
            Place::Speculative => self.shapes[shape as usize].speculative = number,
            Place::Serving { tie, .. } => {
                let cluster = self.ties[tie as usize].cluster;
                self.ties[tie as usize].lots.push(number);
                self.by_cluster[cluster as usize].ties.insert(tie);
            }
        }
        number
    }

    fn drop_lot(&mut self, number: u32, shape: u32, place: Place) {
        self.lots[number as usize].machines = vec![];
        self.free_lots.push(number);
        match place {
            Place::Idle => self.shapes[shape as usize].idle = NOWHERE,
            Place::Speculative => self.shapes[shape as usize].speculative = NOWHERE,
            Place::Serving { tie, .. } => {
                let entry = &mut self.ties[tie as usize];
                entry.lots.retain(|it| *it != number);
                if entry.lots.is_empty() {
                    self.by_cluster[entry.cluster as usize].ties.remove(&tie);
                }
            }
        }
    }

    /// The number of a shape, with one more user.
    fn shape(&mut self, offering: &Offering) -> u32 {
        let (number, new) = self.offers.take(offering);
        if !new {
            return number;
        }
        let offer = offering.known();
        let window = match offer.map(|it| it.capacity) {
            Some(CapacityType::OnDemand) | None => Some(self.windows.on_demand),
            Some(CapacityType::Spot) => Some(self.windows.spot),
            Some(CapacityType::BareMetal | CapacityType::Reserved) => None,
        };
        let entry = Shape {
            amounts: offer.map_or(vec![], |it| self.amounts(&it.allocatable)),
            price: offer.map_or_else(Price::default, |it| it.price),
            is_read: offering.is_read(),
            is_known: offer.is_some(),
            idle: NOWHERE,
            speculative: NOWHERE,
            window: window.map(|it| u32::try_from(it.as_secs()).unwrap_or(u32::MAX)),
        };
        put(&mut self.shapes, number, entry);
        for (profile, it) in self.profiles.iter() {
            if let Some(offer) = offer.filter(|offer| it.fits(offer)) {
                self.candidates[profile as usize].insert(it.cost(offer), number, &self.offers);
            }
        }
        number
    }

    /// The number of a binding, with one more user.
    fn tie(&mut self, binding: &Binding) -> u32 {
        let (number, new) = self.bindings.take(binding);
        if new {
            let cluster = self.cluster(&binding.cluster);
            put(&mut self.ties, number, Tie { cluster, lots: vec![] });
        }
        number
    }

    pub(super) fn release_tie(&mut self, tie: u32) {
        self.bindings.give_back(tie);
    }

    pub(super) fn cluster(&mut self, id: &ClusterId) -> u32 {
        if let Some(number) = self.clusters.get(id) {
            return *number;
        }
        let number = u32::try_from(self.by_cluster.len()).unwrap_or(NOWHERE);
        self.clusters.insert(id.clone(), number);
        self.by_cluster.push(Cluster {
            id: id.clone(),
            trust: Trust::default(),
            needs: vec![],
            unread: vec![],
            leaving: 0,
            ties: BTreeSet::new(),
        });
        number
    }

    pub(super) fn wanting(&mut self, cluster: &ClusterId, need: &Need) -> Wanting {
        let (profile, new) = self.profiles.take(&need.profile);
        if new {
            let mut list = Candidates::default();
            let known = self.offers.iter().filter_map(|(shape, it)| Some((shape, it.known()?)));
            for (shape, offer) in known.filter(|(_, it)| need.profile.fits(it)) {
                list.insert(need.profile.cost(offer), shape, &self.offers);
            }
            put(&mut self.candidates, profile, list);
        }
        let assignment = need.assignment.clone();
        let tie = self.tie(&Binding { cluster: cluster.clone(), assignment });
        let amounts = self.amounts(&need.aggregate).into_boxed_slice();
        Wanting { tie, profile, priority: need.assignment.priority, amounts }
    }

    fn amounts(&mut self, resources: &Resources) -> Vec<(u32, Quantity)> {
        let named = resources.iter().filter(|(_, amount)| !amount.is_zero());
        let numbered = named.map(|(name, amount)| {
            if let Some(number) = self.resources.get(name) {
                return (*number, amount);
            }
            let number = u32::try_from(self.resources.len()).unwrap_or(u32::MAX);
            self.resources.insert(name.to_owned(), number);
            (number, amount)
        });
        let mut amounts: Vec<_> = numbered.collect();
        amounts.sort_unstable_by_key(|it| it.0);
        amounts
    }
}

/// Where a row belongs.
enum MachineUse<'a> {
    Idle,
    Speculative,
    Serving(&'a Binding, Stage),
}

fn texts_of(offer: &Offer) -> usize {
    let labels = offer.labels.iter().map(|(key, value)| key.len() + value.len() + 64);
    let resources = offer.allocatable.iter().count() * 64;
    offer.instance_type.len() + offer.zone.len() + labels.sum::<usize>() + resources
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.as_micros() / 1_000_000).unwrap_or(if at < Timestamp::ZERO {
        0
    } else {
        u32::MAX
    })
}
