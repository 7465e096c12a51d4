//! Objects by kind and name: what an API server is for a cluster, a folder is here.
//!
//! ```text
//!   <world>/id                         what a rebuilt world does not have
//!           changes                    as long as there were changes: the revision
//!           lock                       held during every change
//!           <kind>/<name>/object.json  one object
//!           <kind>/.<name>             what it is about to be, until it is moved into its folder
//!           owned/<owner>/<object>     what belongs to what
//! ```
//!
//! **Invariants**
//! - An object appears, changes and disappears by one rename, whole. Two of one name never stand.
//! - Every such rename is seen in the folder of the kind, so nobody has to watch each object.
//! - Preconditions (the uid, the owner's existence) are judged under the lock.
//! - The revision is raised first: a crash can waste one and never repeats one. It is the length of
//!   a file, which is read and written at once and leaves no file behind.
//! - A read takes no lock: an object is replaced as a whole, and whoever asks for the revision
//!   first reads nothing older than that.
//! - A folder that is there and cannot be read is not absent.
//! - What belongs to an owner is noted before it stands, and until it does not any more.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
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
use crate::failpoint::Failpoint;
use crate::serve::supervisor::{ignore_missing, private_folder, rename_exclusively, write_private};

mod notes;

use notes::Notes;

const ID: &str = "id";
const CHANGES: &str = "changes";
const LOCK: &str = "lock";
const OBJECT: &str = "object.json";
/// Where objects are written before they have a name, and lie after they lost it.
const ASIDE: &str = "aside";
/// How the file begins that an object is about to be.
const NEXT: char = '.';
/// How files begin that are written before they have a name.
const STAGED: &str = ".staged-";
/// How much of an object is read at once; most are smaller.
const PIECE: usize = 8 * 1024;
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

impl Registry {
    /// The world below `root`; a new one if nothing is there.
    pub async fn open(root: PathBuf) -> Result<Self, Error> {
        let make = |path: &Path| private_folder().recursive(true).create(path);
        make(&root).map_err(Error::disk(&root))?;
        let registry = Self { root, turn: Arc::default() };
        let change = registry.change().await?;
        let id = registry.root.join(ID);
        if !id.try_exists().map_err(Error::disk(&id))? {
            change.count()?;
            registry.replace(&id, Uuid::new_v4().to_string().as_bytes())?;
        }
        for folder in Kind::ALL.map(Kind::folder).into_iter().chain([ASIDE]) {
            let path = registry.root.join(folder);
            make(&path).map_err(Error::disk(&path))?;
        }
        registry.sweep()?;
        change.index()?;
        drop(change);
        Ok(registry)
    }

    /// Where the world lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a kind.
    pub fn folder(&self, kind: Kind) -> PathBuf {
        self.root.join(kind.folder())
    }

    /// The folder of an object.
    pub fn path(&self, kind: Kind, name: &str) -> PathBuf {
        self.folder(kind).join(name)
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

    /// The object under a name. A folder without a readable object is neither there nor absent.
    pub fn get(&self, kind: Kind, name: &str) -> Result<Option<Object>, Error> {
        let folder = self.path(kind, checked(name)?);
        let path = folder.join(OBJECT);
        match read_whole(&path) {
            Ok(bytes) => match serde_json::from_slice::<Object>(&bytes) {
                Ok(object) if object.name == name => Ok(Some(object)),
                Ok(_) | Err(_) => Err(Error::Corrupt { path }),
            },
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                if !folder.try_exists().map_err(Error::disk(&folder))? {
                    // Where the whole kind is gone, nothing is proven of one.
                    let all = self.folder(kind);
                    let there = all.try_exists().map_err(Error::disk(&all))?;
                    return if there { Ok(None) } else { Err(Error::Corrupt { path: all }) };
                }
                // It may have come between the two questions.
                if path.try_exists().map_err(Error::disk(&path))? {
                    return self.get(kind, name);
                }
                Err(Error::Corrupt { path })
            }
            Err(why) => Err(Error::disk(&path)(why)),
        }
    }

    /// Whether something has a name, whatever it is.
    fn stands(&self, kind: Kind, name: &str) -> Result<bool, Error> {
        let path = self.path(kind, name);
        path.try_exists().map_err(Error::disk(&path))
    }

    /// The names of a kind, sorted.
    pub fn names(&self, kind: Kind) -> Result<Vec<String>, Error> {
        let mut names = entries(&self.folder(kind))?;
        names.retain(|it| checked(it).is_ok());
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

    /// Writes a file anew, whole.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let staged = self.root.join(format!("{STAGED}{}", Uuid::new_v4()));
        write_private(&staged, content).map_err(Error::disk(&staged))?;
        fs::rename(&staged, path).map_err(Error::disk(path))
    }

    /// Removes what a crash left between two names. Under the lock nobody else is at it.
    fn sweep(&self) -> Result<(), Error> {
        let aside = self.root.join(ASIDE);
        for entry in fs::read_dir(&aside).map_err(Error::disk(&aside))? {
            let path = entry.map_err(Error::disk(&aside))?.path();
            ignore_missing(fs::remove_dir_all(&path)).map_err(Error::disk(&path))?;
        }
        let kinds = Kind::ALL.map(|kind| (self.folder(kind), String::from(NEXT)));
        for (folder, beginning) in kinds.into_iter().chain([(self.root.clone(), STAGED.into())]) {
            for name in entries(&folder)?.iter().filter(|it| it.starts_with(&beginning)) {
                let path = folder.join(name);
                if path.is_file() {
                    ignore_missing(fs::remove_file(&path)).map_err(Error::disk(&path))?;
                }
            }
        }
        Ok(())
    }

    fn notes(&self) -> Notes {
        Notes::below(&self.root)
    }
}

impl Change<'_> {
    /// Creates an object unless something has its name; what it belongs to must stand.
    pub fn create(&self, kind: Kind, mut object: Object) -> Result<Object, Error> {
        let name = checked(&object.name)?.to_owned();
        if self.registry.get(kind, &name)?.is_some() {
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
        let staged = self.registry.root.join(ASIDE).join(Uuid::new_v4().to_string());
        private_folder().create(&staged).map_err(Error::disk(&staged))?;
        let content = staged.join(OBJECT);
        write_private(&content, &bytes(&object, &content)?).map_err(Error::disk(&content))?;
        if let Some(owner) = &object.owner {
            self.registry.notes().add(owner, kind, &name)?;
        }
        Failpoint::ObjectStaged.pass();
        let path = self.registry.path(kind, &name);
        rename_exclusively(&staged, &path).map_err(|why| {
            let taken = why.kind() == io::ErrorKind::AlreadyExists;
            if taken { Error::Exists { name } } else { Error::disk(&path)(why) }
        })?;
        Failpoint::ObjectCreated.pass();
        Ok(object)
    }

    /// The very object that is meant.
    pub fn get(&self, kind: Kind, name: &str, uid: &Uid) -> Result<Option<Object>, Error> {
        match self.registry.get(kind, name)? {
            Some(found) if found.uid != *uid => Err(Error::NotThatOne { name: name.to_owned() }),
            found => Ok(found),
        }
    }

    /// Writes the very object that is meant, if the change changes anything.
    pub fn update(
        &self,
        kind: Kind,
        (name, uid): (&str, &Uid),
        change: impl FnOnce(&mut Object),
    ) -> Result<Object, Error> {
        let found = self.get(kind, name, uid)?;
        let before = found.ok_or_else(|| Error::NotThatOne { name: name.to_owned() })?;
        let mut object = before.clone();
        change(&mut object);
        if object == before {
            return Ok(before);
        }
        object.revision = self.count()?;
        let path = self.registry.path(kind, name).join(OBJECT);
        let next = self.registry.folder(kind).join(format!("{NEXT}{name}"));
        write_private(&next, &bytes(&object, &path)?).map_err(Error::disk(&next))?;
        fs::rename(&next, &path).map_err(Error::disk(&path))?;
        Failpoint::ObjectWritten.pass();
        Ok(object)
    }

    /// Notes that the very object that is meant was asked to go; nothing if it is gone.
    pub fn mark(&self, kind: Kind, (name, uid): (&str, &Uid), now: Timestamp) -> Result<(), Error> {
        if self.get(kind, name, uid)?.is_none() {
            return Ok(());
        }
        let asked = |it: &mut Object| {
            it.deleting_at.get_or_insert(now);
        };
        self.update(kind, (name, uid), asked).map(|_| ())
    }

    /// Takes the very object that is meant away; nothing if it is gone.
    pub fn remove(&self, kind: Kind, name: &str, uid: &Uid) -> Result<(), Error> {
        let Some(found) = self.get(kind, name, uid)? else { return Ok(()) };
        self.count()?;
        let path = self.registry.path(kind, name);
        let unnamed = self.registry.root.join(ASIDE).join(Uuid::new_v4().to_string());
        fs::rename(&path, &unnamed).map_err(Error::disk(&path))?;
        Failpoint::ObjectUnnamed.pass();
        ignore_missing(fs::remove_dir_all(&unnamed)).map_err(Error::disk(&unnamed))?;
        let notes = self.registry.notes();
        if let Some(owner) = &found.owner {
            notes.remove(owner, kind, name)?;
        }
        // Somebody may have removed what belonged to it and asked nobody.
        notes.sweep_of(kind, name, |kind, name| self.registry.stands(kind, name))?;
        Failpoint::ObjectErased.pass();
        Ok(())
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
        notes.found(&registry.root.join(ASIDE), |notes| {
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

/// Reads a file that is never written in place: what comes in one piece is all of it.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; PIECE];
    let read = loop {
        match file.read(&mut bytes) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    bytes.truncate(read);
    if read == PIECE {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn bytes(object: &Object, path: &Path) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(object).map_err(|_| Error::Corrupt { path: path.to_owned() })
}

/// The names in a folder.
fn entries(folder: &Path) -> Result<Vec<String>, Error> {
    listing(folder).map_err(Error::disk(folder))
}

fn listing(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// The object that a file in the folder of a kind is about to be.
pub(super) fn about_to_be(file: &str) -> Option<&str> {
    file.strip_prefix(NEXT).filter(|it| checked(it).is_ok())
}

/// Names become folders, so they must be plain.
fn checked(name: &str) -> Result<&str, Error> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if name.is_empty() || name.starts_with('.') || name.len() > 200 || !name.bytes().all(plain) {
        return Err(Error::Name { name: shortened(name) });
    }
    Ok(name)
}

#[cfg(test)]
mod tests;
