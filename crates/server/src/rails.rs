//! Which world answers, and whether too much of it vanished at once.
//!
//! **Invariants**
//! - A world is pinned by the first answer, and only the very same one raises its revision.
//! - The highest revision is remembered at once and written down soon: at rest nothing is written.
//! - A rail that tripped stays so until somebody opens it; afterwards absence is believed for as
//!   long as the window.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use usher_domain::object::authority::{Authority, Pin, Rail};
use usher_domain::object::id::ResourceId;
use usher_kernel::Timestamp;
use usher_store::{Error, Store, WithAudit, WorldState};

use super::tally::{Count, Tally};

/// The figures of the rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// What trips it.
    pub rail: Rail,
    /// Within which time.
    pub window: Duration,
}

impl Default for Figures {
    fn default() -> Self {
        Self { rail: Rail::default(), window: Duration::from_mins(1) }
    }
}

/// The pins and rails of every world.
pub struct Rails {
    store: Arc<Store>,
    figures: Figures,
    tally: Arc<Tally>,
    worlds: Mutex<BTreeMap<String, Watched>>,
}

/// What is remembered of one world.
#[derive(Debug)]
struct Watched {
    pin: Pin,
    /// The revision that is written down.
    written: u64,
    /// What vanished unasked, and when.
    vanished: BTreeMap<ResourceId, Timestamp>,
}

/// How much vanished and how much there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// So much vanished within the window.
    pub vanished: u32,
    /// Of so much.
    pub present: u32,
}

impl Rails {
    /// The rails of a store's worlds.
    pub fn new(store: Arc<Store>, figures: Figures, tally: Arc<Tally>) -> Self {
        Self { store, figures, tally, worlds: Mutex::default() }
    }

    /// What is known of a world before it is asked: by this process, and by what is written down.
    pub fn pinned(&self, world: &str, known: Option<&WorldState>) -> Option<Pin> {
        let written = known.map(|it| it.pin.clone());
        let Some(mut pin) = self.worlds().get(world).map(|it| it.pin.clone()) else {
            return written;
        };
        if let Some(written) = written.filter(|it| it.identity == pin.identity) {
            pin.revision = pin.revision.max(written.revision);
        }
        Some(pin)
    }

    /// Judges what a world answered by what was pinned before it was asked: what somebody else
    /// heard of it meanwhile may be newer, and says nothing about this answer.
    pub async fn judge(
        &self,
        world: &str,
        pinned: Option<Pin>,
        answered: &Pin,
    ) -> Result<Authority, Error> {
        let (pinned, authority) = if let Some(pinned) = pinned {
            let authority = pinned.judge(answered);
            (pinned, authority)
        } else {
            let first = self.store.pin_world(world.to_owned(), answered.clone()).await?.pin;
            let as_first = Pin { revision: answered.revision, ..first.clone() };
            (first, as_first.judge(answered))
        };
        let mut worlds = self.worlds();
        let written = pinned.revision;
        let fresh = || Watched { pin: pinned, written, vanished: BTreeMap::new() };
        let watched = worlds.entry(world.to_owned()).or_insert_with(fresh);
        if authority == Authority::Pinned {
            watched.pin.revision = watched.pin.revision.max(answered.revision);
        }
        Ok(authority)
    }

    /// Notes that something vanished unasked; whether the rail is tripped now.
    pub async fn vanished(
        &self,
        world: &str,
        (id, now): (ResourceId, Timestamp),
        known: Option<&WorldState>,
    ) -> Result<bool, Error> {
        if known.is_some_and(|it| it.tripped_at.is_some()) {
            return Ok(true);
        }
        // Whoever opened it believed what was seen.
        let opened = known.and_then(|it| it.opened_at);
        if opened.is_some_and(|at| now < at.after(self.figures.window)) {
            return Ok(false);
        }
        let Some(before) = self.note(world, id, now) else { return Ok(false) };
        // Whoever vanished before is not counted among those who stand any more.
        let standing = self.store.standing(world).await?;
        let (vanished, present) = (before + 1, standing.saturating_add(before));
        if !self.figures.rail.trips(vanished, present) {
            return Ok(false);
        }
        if self.store.set_rail(world.to_owned(), true).await? {
            self.tally.count(Count::RailsTripped);
            tracing::error!(
                world,
                vanished,
                present,
                "the rail tripped: absence is held until `usher retry --rail {world}`"
            );
        }
        Ok(true)
    }

    /// How many others vanished within the window.
    fn note(&self, world: &str, id: ResourceId, now: Timestamp) -> Option<u32> {
        let mut worlds = self.worlds();
        let watched = worlds.get_mut(world)?;
        let window = self.figures.window;
        watched.vanished.retain(|_, at| now < at.after(window));
        watched.vanished.insert(id, now);
        Some(u32::try_from(watched.vanished.len()).unwrap_or(u32::MAX).saturating_sub(1))
    }

    /// Opens the rail of a world; `None` if there is no such world.
    pub async fn open(
        &self,
        world: &str,
        order: WithAudit<'_>,
    ) -> Result<Option<WorldState>, Error> {
        if self.store.world(world).await?.is_none() {
            return Ok(None);
        }
        if let Some(watched) = self.worlds().get_mut(world) {
            watched.vanished.clear();
        }
        order.set_rail(world.to_owned(), false).await?;
        self.store.world(world).await
    }

    /// What vanished of a world within the window, as far as this process saw.
    pub async fn loss(&self, world: &str, now: Timestamp) -> Result<Loss, Error> {
        let window = self.figures.window;
        let vanished = self
            .worlds()
            .get(world)
            .map_or(0, |it| it.vanished.values().filter(|at| now < at.after(window)).count());
        let vanished = u32::try_from(vanished).unwrap_or(u32::MAX);
        Ok(Loss { vanished, present: self.store.standing(world).await? })
    }

    /// Writes down how far the worlds have come, if they have.
    pub async fn write_down(&self) -> Result<(), Error> {
        let ahead = |(name, it): (&String, &Watched)| {
            (it.pin.revision > it.written).then(|| (name.clone(), it.pin.clone()))
        };
        let moved: Vec<(String, Pin)> = self.worlds().iter().filter_map(ahead).collect();
        for (name, pin) in moved {
            self.store.pin_world(name.clone(), pin.clone()).await?;
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
