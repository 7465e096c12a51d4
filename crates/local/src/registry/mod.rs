//! Objects by kind and name: what an API server is for a cluster, a folder is here.
//!
//! ```text
//!   <world>/id                  what a rebuilt world does not have
//!           changes             as long as there were changes: the revision
//!           lock                held during every change
//!           <kind>/<name>.json  one object: its states, a line each, of which the last one counts
//!           owned/<owner>       what belongs to what
//!           aside               what has no name yet
//! ```
//!
//! **Invariants**
//! - An object appears by one rename and disappears by one unlink, whole. It changes by one write
//!   to the end of its file. Two of one name never stand.
//! - All of that is seen in the folder of the kind, so nobody has to watch each object.
//! - Preconditions (the uid, the owner's existence) are judged under the lock.
//! - The revision is raised first: a crash can waste one and never repeats one. It is the length of
//!   a file, which is read and written at once and leaves no file behind.
//! - A read takes no lock: the beginning of a file is a state that was, and whoever asks for the
//!   revision first reads nothing older than that.
//! - A file that is there and cannot be read is not absent.
//! - What belongs to an owner is noted before it stands, and until it does not any more.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use usher_domain::object::authority::Pin;
use usher_domain::object::offender::shortened;
use usher_kernel::{Timestamp, Uid};
use uuid::Uuid;

use super::error::Error;
use super::object::{Boot, Kind, Object};
use usher_failpoint::Failpoint;
use usher_hosts::supervisor::{ignore_missing, private_folder, rename_exclusively};

mod lines;
mod notes;
mod states;

use notes::Notes;

const ID: &str = "id";
const CHANGES: &str = "changes";
const LOCK: &str = "lock";
/// How the file of an object ends.
const ENDING: &str = ".json";
/// Where files are written before they have a name.
const ASIDE: &str = "aside";
/// How long a change waits for its turn.
const LOCK_BOUND: Duration = Duration::from_secs(10);
/// How often it asks.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// The objects of one world.
#[derive(Clone, Debug)]
pub struct Registry {
    root: PathBuf,
    /// Lines up the changes of this process, so that only one of them asks for the lock file.
    turn: Arc<Mutex<()>>,
}

/// The right to change the world, until it is dropped.
pub struct Change<'a> {
    registry: &'a Registry,
    _turn: tokio::sync::MutexGuard<'a, ()>,
    _lock: File,
}

/// An object as it was just read, and all that its file holds.
struct Found {
    object: Object,
    content: Vec<u8>,
}

impl Registry {
    /// The world below `root`; a new one if nothing is there.
    pub async fn open(root: PathBuf) -> Result<Self, Error> {
        let make = |path: &Path| private_folder().recursive(true).create(path);
        make(&root).map_err(Error::disk(&root))?;
        let registry = Self { root, turn: Arc::default() };
        let change = registry.change().await?;
        for folder in Kind::ALL.map(Kind::folder).into_iter().chain([ASIDE]) {
            let path = registry.root.join(folder);
            make(&path).map_err(Error::disk(&path))?;
        }
        registry.refuse_folders()?;
        registry.sweep()?;
        let id = registry.root.join(ID);
        if !id.try_exists().map_err(Error::disk(&id))? {
            change.count()?;
            lines::replace(&registry.aside(), &id, Uuid::new_v4().to_string().as_bytes())?;
        }
        change.index()?;
        drop(change);
        Ok(registry)
    }

    /// Earlier every object was a folder: whoever took such a world for empty would end all that
    /// runs in it.
    fn refuse_folders(&self) -> Result<(), Error> {
        let kinds = Kind::ALL.map(|kind| self.folder(kind));
        for folder in kinds.into_iter().chain([self.notes().root().to_owned()]) {
            let found = match fs::read_dir(&folder) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => continue,
                found => found.map_err(Error::disk(&folder))?,
            };
            for entry in found {
                let entry = entry.map_err(Error::disk(&folder))?;
                if entry.file_type().map_err(Error::disk(&entry.path()))?.is_dir() {
                    return Err(Error::Earlier { path: entry.path() });
                }
            }
        }
        Ok(())
    }

    /// Where the world lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a kind.
    pub fn folder(&self, kind: Kind) -> PathBuf {
        self.root.join(kind.folder())
    }

    /// The file of an object.
    pub fn path(&self, kind: Kind, name: &str) -> PathBuf {
        self.folder(kind).join(format!("{name}{ENDING}"))
    }

    /// What the world says it is. Whoever lost its memory says so.
    pub fn pin(&self) -> Result<Pin, Error> {
        let missing = |why: &io::Error| why.kind() == io::ErrorKind::NotFound;
        let (id, changes) = (self.root.join(ID), self.root.join(CHANGES));
        let identity = match fs::read_to_string(&id) {
            Err(why) if missing(&why) => String::new(),
            read => read.map_err(Error::disk(&id))?,
        };
        let revision = match fs::metadata(&changes) {
            Err(why) if missing(&why) => 0,
            found => found.map_err(Error::disk(&changes))?.len(),
        };
        Ok(Pin { identity: Uid::new(identity.trim()), revision })
    }

    /// What the machine of a part is started with, from the very substrate that owns the part.
    pub fn boot_of(&self, part: &Object) -> Result<Option<Boot>, Error> {
        let Some(owner) = &part.owner else { return Ok(None) };
        let own = self.get(owner.kind, &owner.name)?.filter(|it| it.uid == owner.uid);
        Ok(own.and_then(|it| it.substrate).and_then(|it| it.boot))
    }

    /// The object under a name. A file without a readable object is neither there nor absent.
    pub fn get(&self, kind: Kind, name: &str) -> Result<Option<Object>, Error> {
        Ok(self.read(kind, name)?.map(|it| it.object))
    }

    fn read(&self, kind: Kind, name: &str) -> Result<Option<Found>, Error> {
        let path = self.path(kind, checked(name)?);
        let Some(content) = lines::read(&path)? else {
            // Where the whole kind is gone, nothing is proven of one.
            let all = self.folder(kind);
            let there = all.try_exists().map_err(Error::disk(&all))?;
            return if there { Ok(None) } else { Err(Error::Corrupt { path: all }) };
        };
        match states::latest(&content) {
            Some(object) if object.name == name => Ok(Some(Found { object, content })),
            Some(_) | None => Err(Error::Corrupt { path }),
        }
    }

    /// Whether something has a name, whatever it is.
    fn stands(&self, kind: Kind, name: &str) -> Result<bool, Error> {
        let path = self.path(kind, name);
        path.try_exists().map_err(Error::disk(&path))
    }

    /// The names of a kind, sorted.
    pub fn names(&self, kind: Kind) -> Result<Vec<String>, Error> {
        let files = entries(&self.folder(kind))?;
        let mut names: Vec<String> =
            files.iter().filter_map(|it| object_in(it)).map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// What belongs, or belonged a moment ago, to an object of this name, sorted.
    pub fn owned(&self, kind: Kind, name: &str) -> Result<Vec<(Kind, String)>, Error> {
        self.notes().of(kind, checked(name)?)
    }

    /// Waits for the turn to change the world.
    pub async fn change(&self) -> Result<Change<'_>, Error> {
        let path = self.root.join(LOCK);
        let until = Instant::now() + LOCK_BOUND;
        let turn = tokio::time::timeout_at(until, self.turn.lock()).await;
        let turn = turn.map_err(|_| Error::Busy { path: path.clone() })?;
        let mut open = OpenOptions::new();
        let open = open.write(true).create(true).truncate(false);
        let file = open.open(&path).map_err(Error::disk(&path))?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(LOCK_PAUSE).await,
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { path }),
                Err(TryLockError::Error(why)) => return Err(Error::disk(&path)(why)),
            }
        }
        Ok(Change { registry: self, _turn: turn, _lock: file })
    }

    /// Removes what a crash left without a name. Under the lock nobody else is at it.
    fn sweep(&self) -> Result<(), Error> {
        let aside = self.aside();
        for name in entries(&aside)? {
            let path = aside.join(name);
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            ignore_missing(removed).map_err(Error::disk(&path))?;
        }
        Ok(())
    }

    fn aside(&self) -> PathBuf {
        self.root.join(ASIDE)
    }

    fn notes(&self) -> Notes {
        Notes::below(&self.root)
    }
}

impl Change<'_> {
    /// Creates an object unless something has its name; what it belongs to must stand.
    pub fn create(&self, kind: Kind, mut object: Object) -> Result<Object, Error> {
        let name = checked(&object.name)?.to_owned();
        if self.registry.stands(kind, &name)? {
            return Err(Error::Exists { name });
        }
        if let Some(owner) = &object.owner {
            let found = self.registry.get(owner.kind, &owner.name)?;
            if found.is_none_or(|it| it.uid != owner.uid) {
                return Err(Error::OwnerGone { name });
            }
        }
        object.uid = Uid::new(Uuid::new_v4().to_string());
        object.revision = self.count()?;
        let path = self.registry.path(kind, &name);
        let staged = lines::stage(&self.registry.aside(), &line(&object, &path)?)?;
        if let Some(owner) = &object.owner {
            self.registry.notes().add(owner, kind, &name)?;
        }
        Failpoint::ObjectStaged.pass();
        rename_exclusively(&staged, &path).map_err(|why| {
            let taken = why.kind() == io::ErrorKind::AlreadyExists;
            if taken { Error::Exists { name } } else { Error::disk(&path)(why) }
        })?;
        Failpoint::ObjectCreated.pass();
        Ok(object)
    }

    /// The very object that is meant.
    pub fn get(&self, kind: Kind, name: &str, uid: &Uid) -> Result<Option<Object>, Error> {
        Ok(self.read(kind, name, uid)?.map(|it| it.object))
    }

    /// Writes the very object that is meant, if the change changes anything.
    pub fn update(
        &self,
        kind: Kind,
        (name, uid): (&str, &Uid),
        change: impl FnOnce(&mut Object),
    ) -> Result<Object, Error> {
        let found = self.read(kind, name, uid)?;
        self.write(kind, found.ok_or_else(|| not_that_one(name))?, change)
    }

    /// Notes that the very object that is meant was asked to go; nothing if it is gone.
    pub fn mark(&self, kind: Kind, (name, uid): (&str, &Uid), now: Timestamp) -> Result<(), Error> {
        let Some(found) = self.read(kind, name, uid)? else { return Ok(()) };
        self.write_mark(kind, found, now)
    }

    /// The same of whatever has a name, if it belongs to this very owner.
    pub fn mark_owned(
        &self,
        kind: Kind,
        (name, owner): (&str, &Uid),
        now: Timestamp,
    ) -> Result<(), Error> {
        let found = self.registry.read(kind, name)?;
        let is_owned = |it: &Found| it.object.owner.as_ref().is_some_and(|it| it.uid == *owner);
        let Some(found) = found.filter(is_owned) else { return Ok(()) };
        self.write_mark(kind, found, now)
    }

    /// Takes the very object that is meant away; nothing if it is gone.
    pub fn remove(&self, kind: Kind, name: &str, uid: &Uid) -> Result<(), Error> {
        let Some(found) = self.get(kind, name, uid)? else { return Ok(()) };
        self.count()?;
        let path = self.registry.path(kind, name);
        fs::remove_file(&path).map_err(Error::disk(&path))?;
        Failpoint::ObjectUnnamed.pass();
        let notes = self.registry.notes();
        if let Some(owner) = &found.owner {
            notes.remove(owner, kind, name)?;
        }
        // Somebody may have removed what belonged to it and asked nobody.
        notes.sweep_of(kind, name, |kind, name| self.registry.stands(kind, name))?;
        Failpoint::ObjectErased.pass();
        Ok(())
    }

    fn read(&self, kind: Kind, name: &str, uid: &Uid) -> Result<Option<Found>, Error> {
        match self.registry.read(kind, name)? {
            Some(found) if found.object.uid != *uid => Err(not_that_one(name)),
            found => Ok(found),
        }
    }

    fn write_mark(&self, kind: Kind, found: Found, now: Timestamp) -> Result<(), Error> {
        let asked = |it: &mut Object| {
            it.deleting_at.get_or_insert(now);
        };
        self.write(kind, found, asked).map(|_| ())
    }

    fn write(
        &self,
        kind: Kind,
        Found { object: before, content }: Found,
        change: impl FnOnce(&mut Object),
    ) -> Result<Object, Error> {
        let mut object = before.clone();
        change(&mut object);
        if object == before {
            return Ok(before);
        }
        object.revision = self.count()?;
        let path = self.registry.path(kind, &object.name);
        let line = line(&object, &path)?;
        if lines::takes(&content, &line) {
            lines::append(&path, &line).map_err(|why| {
                let gone = why.kind() == io::ErrorKind::NotFound;
                if gone { not_that_one(&object.name) } else { Error::disk(&path)(why) }
            })?;
        } else {
            lines::replace(&self.registry.aside(), &path, &line)?;
        }
        Failpoint::ObjectWritten.pass();
        Ok(object)
    }

    /// Raises the revision before anything changes.
    fn count(&self) -> Result<u64, Error> {
        let path = self.registry.root.join(CHANGES);
        let mut open = OpenOptions::new();
        let file = open.append(true).create(true).mode(0o600).open(&path);
        let file = file.map_err(Error::disk(&path))?;
        let revision = file.metadata().map_err(Error::disk(&path))?.len() + 1;
        file.set_len(revision).map_err(Error::disk(&path))?;
        Failpoint::WorldCounted.pass();
        Ok(revision)
    }

    /// Takes away notes of what does not stand, as a crash leaves them. A world without any notes
    /// gets them.
    fn index(&self) -> Result<(), Error> {
        let (registry, notes) = (self.registry, self.registry.notes());
        if notes.exist()? {
            return notes.sweep(|kind, name| registry.stands(kind, name));
        }
        notes.found(|notes| {
            for kind in Kind::ALL {
                for name in registry.names(kind)? {
                    // What cannot be read says of no owner; whoever has it on record asks for it.
                    if let Ok(Some(Object { owner: Some(owner), .. })) = registry.get(kind, &name) {
                        notes.add(&owner, kind, &name)?;
                    }
                }
            }
            Ok(())
        })
    }
}

fn line(object: &Object, path: &Path) -> Result<Vec<u8>, Error> {
    states::line(object).map_err(|_| Error::Corrupt { path: path.to_owned() })
}

fn not_that_one(name: &str) -> Error {
    Error::NotThatOne { name: name.to_owned() }
}

/// The names in a folder.
fn entries(folder: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::disk(folder))? {
        names.extend(entry.map_err(Error::disk(folder))?.file_name().into_string());
    }
    Ok(names)
}

/// The object that a file in the folder of a kind is of.
pub(super) fn object_in(file: &str) -> Option<&str> {
    file.strip_suffix(ENDING).filter(|it| checked(it).is_ok())
}

/// Names become files, so they must be plain.
fn checked(name: &str) -> Result<&str, Error> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if name.is_empty() || name.starts_with('.') || name.len() > 200 || !name.bytes().all(plain) {
        return Err(Error::Name { name: shortened(name) });
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
