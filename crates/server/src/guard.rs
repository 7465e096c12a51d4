//! The identity of each world, and its mass-deletion guard.
//!
//! **Invariants**
//! - A world is pinned by its first answer, and only the same world raises its revision.
//! - The highest revision is kept in memory at once and recorded soon after; an idle world causes
//!   no write.
//! - A mass-deletion guard that tripped stays so until it is reset; afterwards absence is believed
//!   for as long as the window.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use usher_domain::object::authority::{
    Authority, MassDeletionGuard, Pin, WorldRecord, WorldRecords,
};
use usher_domain::object::id::ResourceId;
use usher_kernel::{Timestamp, Trouble};

use super::tally::{Count, Tally};

/// When a guard trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How many objects must vanish.
    pub guard: MassDeletionGuard,
    /// Within which time.
    pub window: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { guard: MassDeletionGuard::default(), window: Duration::from_mins(1) }
    }
}

/// The pins and mass-deletion guards of every world.
pub struct Guards {
    records: Arc<dyn WorldRecords>,
    config: Config,
    tally: Arc<Tally>,
    worlds: Mutex<BTreeMap<String, Watched>>,
}

/// The state of one world in memory.
#[derive(Debug)]
struct Watched {
    pin: Pin,
    /// The recorded revision.
    written: u64,
    /// Resources whose objects vanished without a request, and when.
    vanished: BTreeMap<ResourceId, Timestamp>,
}

/// How many objects vanished, and of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Vanished within the window.
    pub vanished: u32,
    pub present: u32,
}

impl Guards {
    pub fn new(records: Arc<dyn WorldRecords>, config: Config, tally: Arc<Tally>) -> Self {
        Self { records, config, tally, worlds: Mutex::default() }
    }

    /// The pin of a world before a request, from memory and from its record. A record of another
    /// identity than the one in memory was reset by an operator.
    pub fn pinned(&self, world: &str, known: Option<&WorldRecord>) -> Option<Pin> {
        let recorded = known.map(|it| it.pin.clone());
        let in_memory = self.worlds().get(world).map(|it| it.pin.clone());
        match (in_memory, recorded) {
            (Some(pin), Some(recorded)) if recorded.identity == pin.identity => {
                let revision = pin.revision.max(recorded.revision);
                Some(Pin { revision, ..recorded })
            }
            (_, Some(recorded)) => Some(recorded),
            (in_memory, None) => in_memory,
        }
    }

    /// Judges the answer of a world by the pin from before the request: a revision that another
    /// step observed meanwhile may be newer, and does not apply to this answer.
    pub async fn judge(
        &self,
        world: &str,
        pinned: Option<Pin>,
        answered: &Pin,
    ) -> Result<Authority, Trouble> {
        let (pinned, authority) = if let Some(pinned) = pinned {
            let authority = pinned.judge(answered);
            (pinned, authority)
        } else {
            let first = self.records.pin(world, answered.clone()).await?.pin;
            let as_first = Pin { revision: answered.revision, ..first.clone() };
            (first, as_first.judge(answered))
        };
        let mut worlds = self.worlds();
        let written = pinned.revision;
        let fresh = || Watched { pin: pinned.clone(), written, vanished: BTreeMap::new() };
        let watched = worlds.entry(world.to_owned()).or_insert_with(fresh);
        if watched.pin.identity != pinned.identity {
            *watched = fresh();
        }
        if authority == Authority::Pinned {
            watched.pin.revision = watched.pin.revision.max(answered.revision);
        }
        Ok(authority)
    }

    /// Counts a substrate that vanished without a request; whether the guard is tripped now.
    pub async fn vanished(
        &self,
        world: &str,
        (id, now): (ResourceId, Timestamp),
        known: Option<&WorldRecord>,
    ) -> Result<bool, Trouble> {
        if known.is_some_and(|it| it.tripped_at.is_some()) {
            return Ok(true);
        }
        // The operator who reset it has confirmed the deletions.
        let reset = known.and_then(|it| it.reset_at);
        if reset.is_some_and(|at| now < at.after(self.config.window)) {
            return Ok(false);
        }
        let Some(before) = self.note(world, id, now) else { return Ok(false) };
        // The store no longer counts what vanished before as present.
        let existing = self.records.present(world).await?;
        let (vanished, present) = (before + 1, existing.saturating_add(before));
        if !self.config.guard.trips(vanished, present) {
            return Ok(false);
        }
        if self.records.trip(world).await? {
            self.tally.count(Count::GuardsTripped);
            tracing::error!(
                world,
                vanished,
                present,
                "mass-deletion guard tripped: see `usher retry --reset-guard`"
            );
        }
        Ok(true)
    }

    /// Notes that a resource vanished; returns how many others did within the window.
    fn note(&self, world: &str, id: ResourceId, now: Timestamp) -> Option<u32> {
        let mut worlds = self.worlds();
        let watched = worlds.get_mut(world)?;
        let window = self.config.window;
        watched.vanished.retain(|_, at| now < at.after(window));
        watched.vanished.insert(id, now);
        Some(u32::try_from(watched.vanished.len()).unwrap_or(u32::MAX).saturating_sub(1))
    }

    /// Clears what vanished of a world, for the reset of its guard.
    pub fn forget(&self, world: &str) {
        if let Some(watched) = self.worlds().get_mut(world) {
            watched.vanished.clear();
        }
    }

    /// What vanished of a world within the window, as observed by this process.
    pub async fn loss(&self, world: &str, now: Timestamp) -> Result<Loss, Trouble> {
        let window = self.config.window;
        let vanished = self
            .worlds()
            .get(world)
            .map_or(0, |it| it.vanished.values().filter(|at| now < at.after(window)).count());
        let vanished = u32::try_from(vanished).unwrap_or(u32::MAX);
        Ok(Loss { vanished, present: self.records.present(world).await? })
    }

    /// Records the highest revision of each world.
    pub async fn write_down(&self) -> Result<(), Trouble> {
        let ahead = |(name, it): (&String, &Watched)| {
            (it.pin.revision > it.written).then(|| (name.clone(), it.pin.clone()))
        };
        let moved: Vec<(String, Pin)> = self.worlds().iter().filter_map(ahead).collect();
        for (name, pin) in moved {
            self.records.pin(&name, pin.clone()).await?;
            if let Some(watched) = self.worlds().get_mut(&name) {
                watched.written = watched.written.max(pin.revision);
            }
        }
        Ok(())
    }

    fn worlds(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
