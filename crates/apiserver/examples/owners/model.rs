//! What must be there when all is quiet, by rules that know nothing of a collector.

use std::collections::{BTreeMap, BTreeSet};

use crate::sequence::{Owners, Policy, Step};

/// Who is there, and how.
pub(crate) type World = BTreeMap<usize, Life>;

/// How an object is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Life {
    /// To stay, with these owners.
    Owned(BTreeSet<usize>),
    /// On its way out, and held by nothing but its finalizer.
    Held,
    /// On its way out, and the server has still to do something for it.
    Leaving,
}

/// A name and how many of it there were.
type Identity = (usize, usize);

/// The objects by name.
#[derive(Debug, Default)]
pub(crate) struct Model {
    /// How many objects of a name there ever were.
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
    /// Does a step, and lets go whoever has owners of which none is there.
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

    /// Who is there, and how.
    pub(crate) fn world(&self) -> World {
        let life = |object: &Object| {
            if object.leaving {
                return Life::Held;
            }
            Life::Owned(object.owners.iter().map(|(name, _)| *name).collect())
        };
        self.alive.iter().map(|(name, object)| (*name, life(object))).collect()
    }

    fn identities(&self, of: usize, owners: &Owners) -> BTreeSet<Identity> {
        let known = owners.keys().filter(|owner| **owner != of);
        known.filter_map(|owner| Some((*owner, *self.births.get(owner)?))).collect()
    }

    /// Takes the newest object of a name, if it is there, from all it owns.
    fn disown(&mut self, name: usize) {
        if self.alive.contains_key(&name) {
            let identity = (name, self.births[&name]);
            for object in self.alive.values_mut() {
                object.owners.remove(&identity);
            }
        }
    }

    /// Lets go whoever can; tells whether anybody began to leave. An owner that leaves is there
    /// until nothing holds it.
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
