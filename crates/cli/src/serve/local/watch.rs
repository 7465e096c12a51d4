//! Who is told that something changed: inotify, with one listing in place of what was missed.
//!
//! It only wakes. What a change means is read live by whoever was woken.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use usher_domain::object::name;

use super::error::Error;
use super::object::Kind;
use super::registry::Registry;
use crate::serve::supervisor::Units;

/// How long an id is in a name.
const ID_LENGTH: usize = 36;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// An object, or what stood under its name.
    Object(Kind, String),
    /// The record of a process.
    Unit(String),
}

/// A change, and the life that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touched {
    /// What changed.
    pub item: Item,
    /// The text of its resource-id label, now or when it was last seen; of what came and went
    /// unseen, the id in its name.
    pub life: Option<String>,
}

/// What a watch descriptor stands for.
#[derive(Clone, Debug)]
enum Watched {
    Kind(Kind),
    Units,
    Item(Item),
}

/// A watch over one world.
#[derive(Debug)]
pub struct Watch {
    registry: Registry,
    units: Units,
    events: AsyncFd<OwnedFd>,
    watched: BTreeMap<i32, Watched>,
    lives: BTreeMap<String, String>,
    /// Whether the next answer is a listing.
    unlisted: bool,
}

impl Watch {
    /// A watch whose first answer lists all there is.
    pub fn new(registry: Registry, units: Units) -> Result<Self, Error> {
        let disk = |why: io::Error| Error::disk(registry.root())(why);
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let events = events.map_err(|why| disk(why.into()))?;
        #[expect(deprecated, reason = "its successor is unsafe; this descriptor never changes")]
        let events = AsyncFd::new(events).map_err(disk)?;
        let (watched, lives) = (BTreeMap::new(), BTreeMap::new());
        let mut watch = Self { registry, units, events, watched, lives, unlisted: true };
        for kind in Kind::ALL {
            watch.add(&watch.registry.folder(kind), Watched::Kind(kind))?;
        }
        let processes = watch.units.root().to_owned();
        watch.add(&processes, Watched::Units)?;
        Ok(watch)
    }

    /// Waits for the next changes. Each item is named once, however often it changed.
    pub async fn next(&mut self) -> Result<Vec<Touched>, Error> {
        if self.unlisted {
            self.unlisted = false;
            return self.list();
        }
        loop {
            let mut ready = self.events.readable().await.map_err(Error::disk(&self.root()))?;
            ready.clear_ready();
            let (items, overrun) = self.read()?;
            if overrun {
                return self.list();
            }
            if !items.is_empty() {
                return Ok(self.told(items));
            }
        }
    }

    /// Makes the next answer a listing.
    pub const fn relist(&mut self) {
        self.unlisted = true;
    }

    /// Everything there is, and everything that was there.
    fn list(&mut self) -> Result<Vec<Touched>, Error> {
        let mut items: BTreeSet<Item> = BTreeSet::new();
        for kind in Kind::ALL {
            for name in self.registry.names(kind, "")? {
                items.insert(self.seen(Item::Object(kind, name)));
            }
        }
        let names = self.units.names().map_err(Error::disk(self.units.root()))?;
        for name in names {
            items.insert(self.seen(Item::Unit(name)));
        }
        let known: Vec<Item> = self.watched.values().filter_map(Watched::item).collect();
        items.extend(known);
        Ok(self.told(items))
    }

    /// Reads all events there are, and whether some were lost.
    fn read(&mut self) -> Result<(BTreeSet<Item>, bool), Error> {
        let mut found: Vec<(i32, Option<String>, ReadFlags)> = Vec::new();
        let mut buffer = [const { MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(self.events.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().and_then(|it| it.to_str().ok());
                    found.push((event.wd(), name.map(str::to_owned), event.events()));
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(why) => return Err(Error::disk(&self.root())(why.into())),
            }
        }
        let mut items = BTreeSet::new();
        let mut overrun = false;
        for (wd, name, flags) in found {
            overrun |= flags.contains(ReadFlags::QUEUE_OVERFLOW);
            let item = match self.watched.get(&wd) {
                Some(Watched::Item(item)) => Some(item.clone()),
                Some(Watched::Kind(kind)) => name.map(|it| Item::Object(*kind, it)),
                Some(Watched::Units) => name.map(Item::Unit),
                None => None,
            };
            if flags.contains(ReadFlags::IGNORED) {
                self.watched.remove(&wd);
            }
            let Some(item) = item.filter(|it| !it.name().starts_with('.')) else { continue };
            let appeared = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
            items.insert(if appeared { self.seen(item) } else { item });
        }
        Ok((items, overrun))
    }

    /// Watches what appeared. What is gone already was watched for nothing.
    fn seen(&mut self, item: Item) -> Item {
        let path = match &item {
            Item::Object(kind, name) => self.registry.path(*kind, name),
            Item::Unit(name) => self.units.folder(name),
        };
        let _ = self.add(&path, Watched::Item(item.clone()));
        item
    }

    fn add(&mut self, path: &Path, watched: Watched) -> Result<(), Error> {
        let flags = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;
        let wd = inotify::add_watch(self.events.get_ref(), path, flags);
        let wd = wd.map_err(|why| Error::disk(path)(why.into()))?;
        self.watched.insert(wd, watched);
        Ok(())
    }

    fn told(&mut self, items: BTreeSet<Item>) -> Vec<Touched> {
        let told = items.into_iter().map(|item| {
            let life = self.life(&item);
            Touched { item, life }
        });
        told.collect()
    }

    /// Whose life it concerns, as it says now or said when it was last seen.
    fn life(&mut self, item: &Item) -> Option<String> {
        let (kind, name) = match item {
            Item::Object(kind, name) => (*kind, name),
            Item::Unit(name) => (Kind::Part, name),
        };
        let key = format!("{}/{name}", kind.folder());
        let Ok(found) = self.registry.get(kind, name) else { return self.lives.get(&key).cloned() };
        let Some(found) = found else { return self.lives.remove(&key).or_else(|| named(name)) };
        let life = found.label(name::LABEL_RESOURCE_ID).map(str::to_owned)?;
        self.lives.insert(key, life.clone());
        Some(life)
    }

    fn root(&self) -> PathBuf {
        self.registry.root().to_owned()
    }
}

/// The id that is part of a name, if one is: names of ours say whose they are.
fn named(name: &str) -> Option<String> {
    let mut places = (0..name.len()).filter_map(|it| name.get(it..it + ID_LENGTH));
    places.find(|it| uuid::Uuid::try_parse(it).is_ok()).map(str::to_owned)
}

impl Item {
    fn name(&self) -> &str {
        match self {
            Self::Object(_, name) | Self::Unit(name) => name,
        }
    }
}

impl Watched {
    fn item(&self) -> Option<Item> {
        match self {
            Self::Item(item) => Some(item.clone()),
            Self::Kind(_) | Self::Units => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Red by: something that comes and goes between two looks and wakes nobody.
    #[test]
    fn what_came_and_went_unseen_says_by_its_name_whose_it_was() {
        let id = "01a1e41e-a79f-7462-9395-0da9d55e18a1";
        for name in [id.to_owned(), format!("pr-{id}"), format!("pr-{id}-machine-abe3734f")] {
            assert_eq!(named(&name), Some(id.to_owned()), "{name}");
        }
        for name in ["", "pr-1", "é".repeat(40).as_str(), &id[1..]] {
            assert_eq!(named(name), None, "{name}");
        }
    }
}
