//! Runs the composer and the supervisor of one world, woken by what changes in it.
//!
//! A keeper may die at any point, and several may keep one world.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;
use usher_kernel::Timestamp;

use super::composer::{Agents, Composer, Next};
use super::error::Error;
use super::object::Kind;
use super::registry::Registry;
use super::watch::{Item, News, Touched, Watch};
use crate::clock;
use crate::serve::supervisor::{Outcome, Supervisor, Units, Wanted};

/// How soon something that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How often everything is looked at although nothing changed: the net under the watch.
const RELIST_AFTER: Duration = Duration::from_mins(10);
/// How often the processes are looked at whose records could not be watched.
const UNWATCHED_AFTER: Duration = Duration::from_secs(2);
/// How long, and how often, a process that another keeper has is looked at after a change.
const ENDING_MAX: Duration = Duration::from_secs(1);
const ENDING_LOOK: Duration = Duration::from_millis(50);
/// How much is done before the watch is read again.
const BATCH: usize = 64;
/// How much is done with one object before somebody else has a turn.
const STEPS_MAX: usize = 8;

/// Keeps one world going.
#[derive(Debug)]
pub struct Keeper {
    composer: Composer,
    registry: Registry,
    units: Units,
    supervisor: Supervisor,
    due: BTreeMap<Item, Timestamp>,
    /// What belongs to what, to look after the owner when its own is gone.
    owners: BTreeMap<Item, Item>,
    /// When the records of processes changed that another keeper has.
    changed: BTreeMap<String, Timestamp>,
}

impl Keeper {
    /// A keeper of the world below `root`; of a new one if nothing is there.
    pub async fn open(root: PathBuf, agents: Agents) -> Result<Self, Error> {
        let (registry, units) = super::ground(root).await?;
        let composer = Composer::new(registry.clone(), units.clone(), agents);
        Ok(Self::new(composer, registry, units))
    }

    /// A keeper of these objects and processes.
    pub fn new(composer: Composer, registry: Registry, units: Units) -> Self {
        let supervisor = Supervisor::new(units.clone());
        Self {
            composer,
            registry,
            units,
            supervisor,
            due: BTreeMap::new(),
            owners: BTreeMap::new(),
            changed: BTreeMap::new(),
        }
    }

    /// Keeps the world until it is told to stop. The processes go on without it. What could not be
    /// done is told, with the item if it was about one, and tried again.
    pub async fn run(
        mut self,
        mut stop: oneshot::Receiver<()>,
        tell: impl Fn(Option<&Item>, &Error) + Send,
    ) {
        loop {
            tokio::select! {
                biased;
                _ = &mut stop => return,
                why = self.attend(&tell) => tell(None, &why),
            }
            tokio::select! {
                biased;
                _ = &mut stop => return,
                () = sleep(RETRY_AFTER) => {}
            }
        }
    }

    /// Follows the watch for as long as there is one.
    async fn attend(&mut self, tell: &(impl Fn(Option<&Item>, &Error) + Send)) -> Error {
        let (registry, units) = (self.registry.clone(), self.units.clone());
        let mut watch = match Watch::new(registry, units, self.composer.closeness()) {
            Ok(watch) => watch.of_items(),
            Err(why) => return why,
        };
        let mut relist_at = clock::now().after(RELIST_AFTER);
        loop {
            let now = clock::now();
            if now >= relist_at {
                relist_at = now.after(RELIST_AFTER);
                watch.relist();
            }
            for name in watch.unwatched() {
                self.later(Item::Unit(name.to_owned()), now.after(UNWATCHED_AFTER));
            }
            let next = self.due.values().min().copied().unwrap_or(relist_at).min(relist_at);
            tokio::select! {
                news = watch.next() => match news {
                    Ok(News::All(listed)) => self.touch_all(&listed, clock::now()),
                    Ok(News::Changes(touched)) => self.touch(&touched, clock::now()),
                    Err(why) => return why,
                },
                () = sleep(next.since(now)) => {}
            }
            self.tend_due(tell, clock::now()).await;
        }
    }

    /// Looks after all there is, and all that was there.
    fn touch_all(&mut self, listed: &[Touched], now: Timestamp) {
        let tended = self.supervisor.tended().map(|it| Item::Unit(it.to_owned()));
        let known: Vec<Item> = tended.chain(self.owners.keys().cloned()).collect();
        for item in listed.iter().map(|it| it.item.clone()).chain(known) {
            if let Item::Unit(name) = &item {
                self.changed.insert(name.clone(), now);
            }
            self.soon(item, now);
        }
    }

    fn touch(&mut self, touched: &[Touched], now: Timestamp) {
        for it in touched {
            self.soon(it.item.clone(), now);
            match &it.item {
                Item::Object(Kind::Part, name) => self.soon(Item::Unit(name.clone()), now),
                Item::Unit(name) => {
                    let part = Item::Object(Kind::Part, name.clone());
                    // What its process says of itself is news for the substrate.
                    if let Some(substrate) = self.owners.get(&part).cloned() {
                        self.soon(substrate, now);
                    }
                    self.soon(part, now);
                    self.changed.insert(name.clone(), now);
                }
                Item::Object(
                    kind @ (Kind::Anchor | Kind::Substrate | Kind::ProviderConfig),
                    name,
                ) => {
                    // Notes that cannot be read are read again when everything is listed.
                    for (kind, name) in self.registry.owned(*kind, name).unwrap_or_default() {
                        self.soon(Item::Object(kind, name), now);
                    }
                }
                Item::Object(Kind::ExternalSecret, _) => {}
            }
            if let Some(owner) = self.owners.get(&it.item).cloned() {
                self.soon(owner, now);
            }
        }
    }

    /// Looks after an item then, unless it is looked after before.
    fn later(&mut self, item: Item, at: Timestamp) {
        self.due.entry(item).or_insert(at);
    }

    fn soon(&mut self, item: Item, at: Timestamp) {
        let due = self.due.entry(item).or_insert(at);
        *due = at.min(*due);
    }

    async fn tend_due(&mut self, tell: &(impl Fn(Option<&Item>, &Error) + Send), now: Timestamp) {
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let due: Vec<Item> = due.take(BATCH).map(|(item, _)| item.clone()).collect();
        for item in due {
            self.due.remove(&item);
            let next = match &item {
                Item::Object(kind, name) => self.tend_object(*kind, name, now).await,
                Item::Unit(name) => self.tend_unit(name, now),
            };
            match next {
                Ok(Next::Now) => self.soon(item, now),
                Ok(Next::At(at)) => self.soon(item, at),
                Ok(Next::Rest) => {}
                Err(why) => {
                    tell(Some(&item), &why);
                    self.soon(item, now.after(RETRY_AFTER));
                }
            }
        }
    }

    async fn tend_object(&mut self, kind: Kind, name: &str, now: Timestamp) -> Result<Next, Error> {
        let item = Item::Object(kind, name.to_owned());
        // Steps that follow at once are done before the watch tells of the first one.
        for _ in 0..STEPS_MAX {
            let Some(object) = self.registry.get(kind, name)? else {
                self.owners.remove(&item);
                return Ok(Next::Rest);
            };
            if let Some(owner) = &object.owner {
                self.owners.insert(item.clone(), Item::Object(owner.kind, owner.name.clone()));
            }
            match self.composer.tend(kind, &object, now).await? {
                Next::Now => {}
                next @ (Next::At(_) | Next::Rest) => return Ok(next),
            }
        }
        Ok(Next::Now)
    }

    fn tend_unit(&mut self, name: &str, now: Timestamp) -> Result<Next, Error> {
        let folder = self.units.folder(name);
        let wanted = match self.units.read(name) {
            Ok(Some(unit)) => self.composer.wanted(name, &unit)?,
            Ok(None) => Wanted::Stop,
            Err(why) if why.kind() == io::ErrorKind::InvalidData => Wanted::Stop,
            Err(why) => return Err(Error::disk(&folder)(why)),
        };
        let outcome = self.supervisor.tend(name, wanted, now).map_err(Error::disk(&folder))?;
        let changed = self.changed.remove(name);
        Ok(match outcome {
            Outcome::Elsewhere => match changed {
                // It may be the end of that keeper, which is seen a moment before its lock is free.
                Some(at) if now < at.after(ENDING_MAX) => {
                    self.changed.insert(name.to_owned(), at);
                    Next::At(now.after(ENDING_LOOK))
                }
                Some(_) | None => Next::Rest,
            },
            Outcome::Resting => Next::Rest,
            Outcome::Waiting(until) => Next::At(until),
            Outcome::Gone => {
                self.soon(Item::Object(Kind::Part, name.to_owned()), now);
                Next::Rest
            }
        })
    }
}
