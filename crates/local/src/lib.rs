//! The local world: a substrate is a file with parts and a supervised agent, on this machine.
//!
//! Read in this order: [`object`] (what lies on the disk), [`registry`] (how it is changed),
//! `render` (what should lie there), `look` and `verbs` (the ports of the lives),
//! [`compose`] and [`composer`] (what a substrate becomes), [`machines`] (what is asked of a
//! fleet), [`watch`] (who is told), [`keeper`] (what runs all of it) with `agenda` (when each is
//! looked after) and `round` (everything, folder by folder), `port` (the world
//! as the server reaches it).
//!
//! **Invariants**
//! - What is created under an anchor that is gone is refused; what stands under one is collected.
//! - Deleting a substrate marks its parts and waits for none of them.
//! - Absent is: the right world, no object, nobody holding the lock of its process, and no machine
//!   held for it.
//! - A part of a look that could not be read is unknown, never absent.

pub mod compose;
pub mod composer;
pub mod error;
pub mod keeper;
pub mod machines;
pub mod object;
pub mod registry;
pub mod watch;

mod agenda;
mod on_fleet;
mod port;
mod render;
mod round;
mod snapshot;
mod verbs;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::observe::{self, Observed};
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::snapshot::{ComposedState, Snapshot};
use usher_domain::broker::tombstone::Tombstone;
use usher_domain::broker::world::ControlPlane;
use usher_domain::object::authority::{Authority, BoxFuture, Pin};
use usher_domain::object::id::ResourceId;
use usher_kernel::{Record, Trouble, Unknown, World};

use composer::{Agents, Composer, Fleet};
use error::Error;
use keeper::Keeper;
use registry::Registry;
use snapshot::Eyes;
use watch::{Closeness, Watch};

use usher_hosts::supervisor::{Units, has_entries};

/// Where the records of processes lie.
const PROCESSES: &str = "process";
/// Of how many resources the tags are kept at most.
const TAGS_MAX: usize = 1_024;

/// The local world, seen by the lives of the broker.
#[derive(Clone, Debug)]
pub struct LocalWorld<I> {
    registry: Registry,
    units: Units,
    agents: Agents,
    inside: I,
    tags: Tags,
}

/// The tags that the last look at a resource saw, for the verb that may follow it.
#[derive(Clone, Debug, Default)]
struct Tags(Arc<Mutex<HashMap<ResourceId, BTreeMap<String, String>>>>);

impl Tags {
    fn keep(&self, of: ResourceId, tags: BTreeMap<String, String>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Most looks are followed by no verb.
        if kept.len() >= TAGS_MAX {
            kept.clear();
        }
        kept.insert(of, tags);
    }

    fn take(&self, of: ResourceId) -> Option<BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&of)
    }
}

impl<I: ControlPlane> LocalWorld<I> {
    /// The world below `root`; a new one if nothing is there.
    pub async fn open(root: PathBuf, agents: Agents, inside: I) -> Result<Self, Error> {
        let (registry, units) = ground(root).await?;
        Ok(Self { registry, units, agents, inside, tags: Tags::default() })
    }

    /// The objects.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The records of processes.
    pub const fn units(&self) -> &Units {
        &self.units
    }

    /// What this world asks.
    pub const fn inside(&self) -> &I {
        &self.inside
    }

    /// Who composes and supervises, once it runs.
    pub fn keeper(&self) -> Keeper {
        Keeper::new(self.composer(), self.registry.clone(), self.units.clone())
    }

    /// Who tells which lives have changed.
    pub fn watch(&self) -> Result<Watch, Error> {
        Watch::new(self.registry.clone(), self.units.clone(), Closeness::Records)
    }

    fn composer(&self) -> Composer {
        Composer::new(self.registry.clone(), self.units.clone(), self.agents.clone())
    }

    /// What this world says it is.
    fn identify(&self) -> BoxFuture<'_, Result<Pin, Trouble>> {
        let pin = self.registry.pin().map_err(|why| why.trouble());
        Box::pin(std::future::ready(pin))
    }

    async fn observed(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        // The world is asked what it is before it is looked at: the look is no older than this.
        let known = self.inside.of_resource(&record.state, &|| self.identify()).await?;
        self.tags.keep(record.state.id(), known.tags.clone());
        let eyes = Eyes { registry: &self.registry, units: &self.units };
        let mut look = eyes.resource(record, known);
        self.look_at_fleet(record, &mut look).await;
        if look.authority == Authority::Pinned && is_vanished(record, &look) {
            look.guard_tripped |= self.inside.vanished(&record.state, look.at).await?;
        }
        Ok(observe::fold(&record.state, &record.name_ledger, &look))
    }

    async fn observed_config(
        &self,
        record: &Record<ProviderConfig>,
    ) -> Result<provider_config::Observed, Trouble> {
        let trust = self.inside.of_config(&record.state, &|| self.identify()).await?;
        let eyes = Eyes { registry: &self.registry, units: &self.units };
        Ok(provider_config::fold(&record.state, &record.name_ledger, &eyes.config(record, trust)))
    }
}

impl<I> LocalWorld<I> {
    /// A part whose machine is held still stands, also if somebody removed it: it is absent only
    /// once nothing of its machine is left.
    async fn look_at_fleet(&self, record: &Record<Resource>, look: &mut Snapshot) {
        let Agents::Fleet(Fleet { machines: fleet, .. }) = &self.agents else { return };
        for (part, uid) in snapshot::missing_machines(record, look) {
            part.reading = match fleet.is_held(record.state.id()).await {
                Ok(true) => Ok(ComposedState::Present { uid, ours: true }),
                Ok(false) => continue,
                Err(_) => Err(Unknown::Unreachable),
            };
        }
    }
}

/// Whether a substrate that stood is absent although nobody asked it to go.
fn is_vanished(record: &Record<Resource>, look: &Snapshot) -> bool {
    let resource = &record.state;
    let stood = record.name_ledger.seen(&resource.xr_name(resource.generation())).is_some();
    stood && !resource.is_tearing_down() && look.xr == Ok(None)
}

/// Whether a process was recorded in the world below `root`.
pub fn has_processes(root: &Path) -> io::Result<bool> {
    has_entries(&root.join(PROCESSES))
}

/// The objects and processes below `root`; a new world if nothing is there.
async fn ground(root: PathBuf) -> Result<(Registry, Units), Error> {
    let registry = Registry::open(root).await?;
    let processes = registry.root().join(PROCESSES);
    let units = Units::open(processes.clone()).map_err(Error::disk(&processes))?;
    let change = registry.change().await?;
    units.sweep().map_err(Error::disk(&processes))?;
    drop(change);
    Ok((registry, units))
}

impl<I: ControlPlane> World<Broker> for LocalWorld<I> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.observed(record).await
    }

    async fn apply(&self, record: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.perform(record, effect).await
    }
}

impl<I: ControlPlane> World<Tombstone> for LocalWorld<I> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.observed(record).await
    }

    async fn apply(&self, record: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.perform(record, effect).await
    }
}

impl<I: ControlPlane> World<provider_config::ProviderConfigReconciler> for LocalWorld<I> {
    async fn observe(
        &self,
        record: &Record<ProviderConfig>,
    ) -> Result<provider_config::Observed, Trouble> {
        self.observed_config(record).await
    }

    async fn apply(&self, record: &Record<ProviderConfig>, verb: &Verb) -> Result<(), Trouble> {
        self.perform_of_config(record, verb).await
    }
}
