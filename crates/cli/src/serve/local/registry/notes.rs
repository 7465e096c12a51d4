//! Notes of what belongs to what, so that nobody reads through all objects to find a few.
//!
//! A note is an empty file. It is made before what it is about, and goes after that. Where the
//! folder of all notes is missing nothing is known; it is made as a whole when the world is opened.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::error::Error;
use super::super::object::{Kind, Owner};
use super::{checked, entries, listing};
use crate::serve::supervisor::{ignore_missing, private_folder, write_private};

/// The folder of all notes, in that of the world.
const OWNED: &str = "owned";

/// The notes of one world.
pub(super) struct Notes {
    root: PathBuf,
}

impl Notes {
    /// The notes of the world below `root`.
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.join(OWNED) }
    }

    /// Whether there are any, so that what is not noted is not there.
    pub(super) fn exist(&self) -> Result<bool, Error> {
        self.root.try_exists().map_err(Error::disk(&self.root))
    }

    /// Makes all of them at once, written aside before.
    pub(super) fn found(
        &self,
        aside: &Path,
        fill: impl FnOnce(&Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let staged = Self { root: aside.join(OWNED) };
        private_folder().create(&staged.root).map_err(Error::disk(&staged.root))?;
        fill(&staged)?;
        fs::rename(&staged.root, &self.root).map_err(Error::disk(&self.root))
    }

    /// What is noted of an owner, sorted.
    pub(super) fn of(&self, kind: Kind, name: &str) -> Result<Vec<(Kind, String)>, Error> {
        let notes = listed(&self.root.join(label(kind, name)))?;
        // Where all notes are gone, nothing is proven of these.
        if notes.is_empty() && !self.exist()? {
            return Err(Error::Corrupt { path: self.root.clone() });
        }
        let mut owned: Vec<(Kind, String)> = notes.iter().filter_map(|it| labelled(it)).collect();
        owned.sort();
        Ok(owned)
    }

    /// Notes that something belongs to an owner.
    pub(super) fn add(&self, owner: &Owner, kind: Kind, name: &str) -> Result<(), Error> {
        let folder = self.root.join(label(owner.kind, &owner.name));
        match private_folder().create(&folder) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(Error::disk(&folder))?,
        }
        let note = folder.join(label(kind, name));
        write_private(&note, b"").map_err(Error::disk(&note))
    }

    /// Takes a note away.
    pub(super) fn remove(&self, owner: &Owner, kind: Kind, name: &str) -> Result<(), Error> {
        forget(&self.root.join(label(owner.kind, &owner.name)), &label(kind, name))
    }

    /// Takes the notes of every owner away of what does not stand.
    pub(super) fn sweep(
        &self,
        stands: impl Fn(Kind, &str) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        entries(&self.root)?.iter().try_for_each(|it| sweep(&self.root.join(it), &stands))
    }

    /// The same of one owner.
    pub(super) fn sweep_of(
        &self,
        kind: Kind,
        name: &str,
        stands: impl Fn(Kind, &str) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        sweep(&self.root.join(label(kind, name)), &stands)
    }
}

fn sweep(folder: &Path, stands: &impl Fn(Kind, &str) -> Result<bool, Error>) -> Result<(), Error> {
    for note in listed(folder)? {
        let stands = match labelled(&note) {
            Some((kind, name)) => stands(kind, &name)?,
            None => false,
        };
        if !stands {
            let note = folder.join(note);
            ignore_missing(fs::remove_file(&note)).map_err(Error::disk(&note))?;
        }
    }
    remove_empty(folder)
}

/// The notes in an owner's folder; none if it has none.
fn listed(folder: &Path) -> Result<Vec<String>, Error> {
    match listing(folder) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(vec![]),
        listed => listed.map_err(Error::disk(folder)),
    }
}

/// Takes a note away, and the folder of its owner if it was the last one.
fn forget(folder: &Path, note: &str) -> Result<(), Error> {
    let note = folder.join(note);
    ignore_missing(fs::remove_file(&note)).map_err(Error::disk(&note))?;
    remove_empty(folder)
}

fn remove_empty(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir(folder) {
        Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        done => ignore_missing(done).map_err(Error::disk(folder)),
    }
}

/// Kind and name as one word.
fn label(kind: Kind, name: &str) -> String {
    format!("{}.{name}", kind.folder())
}

fn labelled(label: &str) -> Option<(Kind, String)> {
    let (folder, name) = label.split_once('.')?;
    let kind = Kind::ALL.into_iter().find(|it| it.folder() == folder)?;
    Some((kind, checked(name).ok()?.to_owned()))
}
