//! Who is told that something changed: inotify, with one round in place of what was missed.
//!
//! It only wakes. What a change means is read live by whoever was woken. Objects are watched by the
//! folders of their kinds, where each is a file; the records of processes one by one, and only for
//! whoever must know when a process ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;
use usher_domain::object::name;

use super::error::Error;
use super::object::{Kind, Object};
use super::registry::{Registry, object_in};
use super::round::Round;
use usher_hosts::supervisor::Units;

/// How long an id is in a name.
const ID_LENGTH: usize = 36;
/// How many objects are read before somebody else has a turn.
const PIECE: usize = 32;

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
    /// unseen, the id in its name. Nothing for whom items are enough.
    pub life: Option<String>,
}

/// What a watch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Anything may have changed: before the watch began, or when too much did at once. Whoever
    /// hears it goes round by itself.
    All,
    /// What changed since.
    Changes(Vec<Touched>),
}

/// How closely the records of processes are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closeness {
    /// That they come and go.
    Records,
    /// What happens inside each as well: the end of a process lets go of its locks.
    Processes,
}

/// What a watch descriptor stands for.
#[derive(Clone, Debug)]
enum Watched {
    Kind(Kind),
    Units,
    Unit(String),
}

/// A watch over one world.
#[derive(Debug)]
pub struct Watch {
    registry: Registry,
    units: Units,
    events: AsyncFd<OwnedFd>,
    closeness: Closeness,
    watched: BTreeMap<i32, Watched>,
    /// The records that could not be watched: the kernel allows so many and no more.
    unwatched: BTreeSet<String>,
    /// Whose an item is, if its name does not say so.
    lives: BTreeMap<Item, String>,
    /// Whether the next answer is that anything may have changed.
    unlisted: bool,
    /// Whether it is told whose life an item concerns.
    of_lives: bool,
}

impl Watch {
    /// A watch whose first answer is that anything may have changed.
    pub fn new(registry: Registry, units: Units, closeness: Closeness) -> Result<Self, Error> {
        let disk = |why: io::Error| Error::disk(registry.root())(why);
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let events = events.map_err(|why| disk(why.into()))?;
        #[expect(deprecated, reason = "its successor is unsafe; this descriptor never changes")]
        let events = AsyncFd::new(events).map_err(disk)?;
        let mut watch = Self {
            registry,
            units,
            events,
            closeness,
            watched: BTreeMap::new(),
            unwatched: BTreeSet::new(),
            lives: BTreeMap::new(),
            unlisted: true,
            of_lives: true,
        };
        for kind in Kind::ALL {
            watch.add(&watch.registry.folder(kind), Watched::Kind(kind))?;
        }
        let processes = watch.units.root().to_owned();
        watch.add(&processes, Watched::Units)?;
        Ok(watch)
    }

    /// The same without the lives, for whom items are enough.
    #[must_use]
    pub fn of_items(self) -> Self {
        Self { of_lives: false, ..self }
    }

    /// Waits for what is new. Each item is named once, however often it changed.
    pub async fn next(&mut self) -> Result<News, Error> {
        if self.unlisted {
            self.unlisted = false;
            return self.begin();
        }
        loop {
            let mut ready = self.events.readable().await.map_err(Error::disk(&self.root()))?;
            ready.clear_ready();
            let (items, overrun) = self.read()?;
            if overrun {
                return self.begin();
            }
            if !items.is_empty() {
                return Ok(News::Changes(self.told(items)));
            }
        }
    }

    /// Makes the next answer that anything may have changed.
    pub const fn relist(&mut self) {
        self.unlisted = true;
    }

    /// The records whose changes are not told.
    pub fn unwatched(&self) -> impl Iterator<Item = &str> {
        self.unwatched.iter().map(String::as_str)
    }

    /// Reads every object there is, and says whose it is; nothing of one that cannot be read.
    pub async fn survey(
        &mut self,
        mut see: impl FnMut(Option<String>, Option<Object>),
    ) -> Result<(), Error> {
        let mut round = Round::new();
        let before = std::mem::take(&mut self.lives);
        for count in 1_usize.. {
            let item = round.next(&self.registry, &self.units)?;
            let Some(item @ Item::Object(kind, name)) = &item else { break };
            match self.registry.get(*kind, name) {
                Ok(Some(object)) => see(self.learn(item, &object), Some(object)),
                Ok(None) => {}
                Err(Error::Corrupt { .. }) => {
                    see(before.get(item).cloned().or_else(|| named(name)), None);
                }
                Err(why) => return Err(why),
            }
            if count % PIECE == 0 {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Watches every record there is, where they are watched one by one.
    fn begin(&mut self) -> Result<News, Error> {
        self.unwatched.clear();
        if self.closeness == Closeness::Processes {
            for name in self.units.names().map_err(Error::disk(self.units.root()))? {
                self.attend(&name);
            }
        }
        Ok(News::All)
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
            items.extend(self.item(wd, name.as_deref(), flags));
            if flags.intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF) {
                match self.watched.get(&wd) {
                    // Whatever stands in its place is another folder.
                    Some(Watched::Kind(_) | Watched::Units) => {
                        return Err(Error::Corrupt { path: self.root() });
                    }
                    Some(Watched::Unit(_)) if flags.contains(ReadFlags::IGNORED) => {
                        self.watched.remove(&wd);
                    }
                    Some(Watched::Unit(_)) | None => {}
                }
            }
        }
        Ok((items, overrun))
    }

    /// What an event is about.
    fn item(&mut self, wd: i32, name: Option<&str>, flags: ReadFlags) -> Option<Item> {
        match self.watched.get(&wd)? {
            Watched::Unit(name) => Some(Item::Unit(name.clone())),
            Watched::Kind(kind) => Some(Item::Object(*kind, object_in(name?)?.to_owned())),
            Watched::Units => {
                let name = name.filter(|it| !it.starts_with('.'))?.to_owned();
                if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                    self.attend(&name);
                } else {
                    self.unwatched.remove(&name);
                }
                Some(Item::Unit(name))
            }
        }
    }

    /// Watches a record that is there, as closely as was asked for.
    fn attend(&mut self, name: &str) {
        if self.closeness == Closeness::Records {
            return;
        }
        let added = self.add(&self.units.folder(name), Watched::Unit(name.to_owned()));
        // What is gone already was watched for nothing.
        let missed = added.is_err() && self.units.folder(name).exists();
        if missed {
            self.unwatched.insert(name.to_owned());
        } else {
            self.unwatched.remove(name);
        }
    }

    fn add(&mut self, path: &Path, watched: Watched) -> Result<(), Error> {
        let changes = WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        let flags = match watched {
            // An object is made elsewhere and moved here.
            Watched::Kind(_) => changes,
            Watched::Units | Watched::Unit(_) => changes | WatchFlags::CREATE,
        };
        let wd = inotify::add_watch(self.events.get_ref(), path, flags);
        let wd = wd.map_err(|why| Error::disk(path)(why.into()))?;
        self.watched.insert(wd, watched);
        Ok(())
    }

    fn told(&mut self, items: BTreeSet<Item>) -> Vec<Touched> {
        let told = items.into_iter().map(|item| {
            let life = if self.of_lives { self.life(&item) } else { None };
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
        let Ok(found) = self.registry.get(kind, name) else {
            return self.lives.get(item).cloned().or_else(|| named(name));
        };
        let Some(found) = found else { return self.lives.remove(item).or_else(|| named(name)) };
        self.learn(item, &found)
    }

    /// Whose life an object says it concerns; remembered if its name does not say so.
    fn learn(&mut self, item: &Item, object: &Object) -> Option<String> {
        let life = object.label(name::LABEL_RESOURCE_ID).map(str::to_owned)?;
        if named(&object.name).as_ref() == Some(&life) {
            self.lives.remove(item);
        } else {
            self.lives.insert(item.clone(), life.clone());
        }
        Some(life)
    }

    fn root(&self) -> PathBuf {
        self.registry.root().to_owned()
    }
}

/// The id that is part of a name, if one is: names of ours say whose they are.
pub(super) fn named(name: &str) -> Option<String> {
    let mut places = (0..name.len()).filter_map(|it| name.get(it..it + ID_LENGTH));
    places.find(|it| uuid::Uuid::try_parse(it).is_ok()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use usher_kernel::{Timestamp, Uid};

    use super::*;

    const ID: &str = "01a1e41e-a79f-7462-9395-0da9d55e18a1";

    /// Red by: something that comes and goes between two looks and wakes nobody.
    #[test]
    fn what_came_and_went_unseen_says_by_its_name_whose_it_was() {
        for name in [ID.to_owned(), format!("pr-{ID}"), format!("pr-{ID}-machine-abe3734f")] {
            assert_eq!(named(&name), Some(ID.to_owned()), "{name}");
        }
        for name in ["", "pr-1", "é".repeat(40).as_str(), &ID[1..]] {
            assert_eq!(named(name), None, "{name}");
        }
    }

    fn object(name: &str, life: &str) -> Object {
        Object {
            name: name.to_owned(),
            uid: Uid::new(""),
            ledger_kind: "Anchor".to_owned(),
            place: "ns".to_owned(),
            labels: BTreeMap::from([(name::LABEL_RESOURCE_ID.to_owned(), life.to_owned())]),
            owner: None,
            revision: 0,
            created_at: Timestamp::ZERO,
            deleting_at: None,
            manifest: serde_json::Value::Null,
            substrate: None,
            footing: None,
        }
    }

    async fn changes(watch: &mut Watch) -> Vec<Touched> {
        match watch.next().await.unwrap() {
            News::Changes(touched) => touched,
            News::All => panic!("anything may have changed"),
        }
    }

    /// Red by: a change that only a watch of the object's own file would see.
    // Requirement: LW-19
    #[tokio::test]
    async fn an_object_that_comes_changes_and_goes_is_told_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path().join("world")).await.unwrap();
        let units = Units::open(registry.root().join("process")).unwrap();
        let mut watch = Watch::new(registry.clone(), units, Closeness::Records).unwrap();
        assert_eq!(watch.next().await.unwrap(), News::All);
        // A name that says nothing: whose it was is remembered.
        let item = Item::Object(Kind::Anchor, "a".to_owned());
        let told = [Touched { item, life: Some(ID.to_owned()) }];
        let change = registry.change().await.unwrap();
        let made = change.create(Kind::Anchor, object("a", ID)).unwrap();
        assert_eq!(changes(&mut watch).await, told);
        change.mark(Kind::Anchor, ("a", &made.uid), Timestamp::ZERO).unwrap();
        assert_eq!(changes(&mut watch).await, told);
        let path = registry.path(Kind::Anchor, "a");
        std::fs::write(&path, std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(changes(&mut watch).await, told, "as a person writes it");
        change.remove(Kind::Anchor, "a", &made.uid).unwrap();
        assert_eq!(changes(&mut watch).await, told);
        assert_eq!(watch.lives, BTreeMap::new());
        assert_eq!(watch.watched.len(), Kind::ALL.len() + 1, "folders of kinds and no more");
    }

    /// Red by: the end of a process that its keeper does not hear of.
    // Requirement: LW-19
    #[tokio::test]
    async fn who_watches_closely_is_told_what_happens_inside_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::open(dir.path().join("world")).await.unwrap();
        let units = Units::open(registry.root().join("process")).unwrap();
        let mut watch = Watch::new(registry, units.clone(), Closeness::Processes).unwrap();
        watch.next().await.unwrap();
        std::fs::create_dir(units.folder("a")).unwrap();
        let item = Item::Unit("a".to_owned());
        let told = [Touched { item, life: None }];
        assert_eq!(changes(&mut watch).await, told);
        std::fs::write(units.folder("a").join("left"), "").unwrap();
        assert_eq!(changes(&mut watch).await, told);
        assert_eq!(watch.unwatched().count(), 0);
    }
}
