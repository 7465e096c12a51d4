//! A model of garbage collection, independent of the implementation.

use std::collections::{BTreeMap, BTreeSet};

use crate::sequence::{Owners, Policy, Step};

/// The existing objects and their states.
pub(crate) type Snapshot = BTreeMap<usize, ObjectState>;

/// The state of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObjectState {
    /// Existing, with these owners.
    Owned(BTreeSet<usize>),
    /// In deletion, held by its own finalizer only.
    Held,
    /// In deletion, with work left for the server.
    Leaving,
}

/// A name and its incarnation.
type Identity = (usize, usize);

/// The objects by name.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// The number of incarnations of each name.
    births: BTreeMap<usize, usize>,
    alive: BTreeMap<usize, Object>,
}

#[derive(Debug)]
struct Object {
    owners: BTreeSet<Identity>,
    held: bool,
    leaving: bool,
}

impl Model {
    /// Applies a step, and deletes objects whose owners are all gone.
    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Create { name, owners, held } if !self.alive.contains_key(name) => {
                let owners = self.identities(*name, owners);
                *self.births.entry(*name).or_default() += 1;
                self.alive.insert(*name, Object { owners, held: *held, leaving: false });
            }
            Step::Create { .. } => {}
            Step::Own { name, owners } => {
                let owners = self.identities(*name, owners);
                if let Some(object) = self.alive.get_mut(name) {
                    object.owners = owners;
                }
            }
            Step::Delete { name, policy } => {
                if let Some(object) = self.alive.get_mut(name) {
                    object.leaving = true;
                }
                if *policy == Policy::Orphan {
                    self.disown(*name);
                }
            }
            Step::Release { name } => {
                if let Some(object) = self.alive.get_mut(name) {
                    object.held = false;
                }
            }
        }
        while self.collect() {}
    }

    /// The existing objects and their states.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let life = |object: &Object| {
            if object.leaving {
                return ObjectState::Held;
            }
            ObjectState::Owned(object.owners.iter().map(|(name, _)| *name).collect())
        };
        self.alive.iter().map(|(name, object)| (*name, life(object))).collect()
    }

    fn identities(&self, of: usize, owners: &Owners) -> BTreeSet<Identity> {
        let known = owners.keys().filter(|owner| **owner != of);
        known.filter_map(|owner| Some((*owner, *self.births.get(owner)?))).collect()
    }

    /// Removes the newest object of a name from its dependents' owner references.
    fn disown(&mut self, name: usize) {
        if self.alive.contains_key(&name) {
            let identity = (name, self.births[&name]);
            for object in self.alive.values_mut() {
                object.owners.remove(&identity);
            }
        }
    }

    /// Deletes objects without owners; returns whether a deletion began. An owner in deletion
    /// exists until nothing holds it.
    fn collect(&mut self) -> bool {
        self.alive.retain(|_, object| object.held || !object.leaving);
        let there: BTreeSet<Identity> =
            self.alive.keys().map(|name| (*name, self.births[name])).collect();
        let mut began = false;
        for object in self.alive.values_mut().filter(|object| !object.leaving) {
            object.leaving = !object.owners.is_empty() && object.owners.is_disjoint(&there);
            object.owners.retain(|owner| there.contains(owner));
            began |= object.leaving;
        }
        began
    }
}
