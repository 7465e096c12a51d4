//! Notes of what belongs to what, so that nobody reads through all objects to find a few.
//!
//! Each owner has a file of lines, `+<object>` and `-<object>`; it goes with the last of them. A
//! line is written before what it is about stands, or after that is gone, so whoever reads without
//! the lock misses nothing that stands. Where the folder of all notes is missing nothing is known;
//! it is made as a whole when the world is opened.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{ASIDE, checked, entries, lines};
use crate::error::Error;
use crate::object::{Kind, Owner};
use usher_hosts::supervisor::{ignore_missing, private_folder, write_private};

/// The folder of all notes, in that of the world.
const OWNED: &str = "owned";

/// The notes of one world.
pub(super) struct Notes {
    root: PathBuf,
    aside: PathBuf,
}

/// What a line says of an object.
#[derive(Clone, Copy)]
enum Sign {
    Stands,
    Gone,
}

impl Notes {
    /// The notes of the world below `root`.
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.join(OWNED), aside: root.join(ASIDE) }
    }

    /// Where they lie.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether there are any, so that what is not noted is not there.
    pub(super) fn exist(&self) -> Result<bool, Error> {
        self.root.try_exists().map_err(Error::disk(&self.root))
    }

    /// Makes all of them at once, written aside before.
    pub(super) fn found(&self, fill: impl FnOnce(&Self) -> Result<(), Error>) -> Result<(), Error> {
        let staged = Self { root: self.aside.join(OWNED), aside: self.aside.clone() };
        private_folder().create(&staged.root).map_err(Error::disk(&staged.root))?;
        fill(&staged)?;
        fs::rename(&staged.root, &self.root).map_err(Error::disk(&self.root))
    }

    /// What is noted of an owner, sorted.
    pub(super) fn of(&self, kind: Kind, name: &str) -> Result<Vec<(Kind, String)>, Error> {
        let path = self.path(kind, name);
        let noted = match lines::read(&path)? {
            Some(content) => noted(&content, &path)?,
            // Where all notes are gone, nothing is proven of these.
            None if !self.exist()? => return Err(Error::Corrupt { path: self.root.clone() }),
            None => return Ok(vec![]),
        };
        let mut owned: Vec<(Kind, String)> = noted.iter().filter_map(|it| labelled(it)).collect();
        owned.sort();
        Ok(owned)
    }

    /// Notes that something belongs to an owner.
    pub(super) fn add(&self, owner: &Owner, kind: Kind, name: &str) -> Result<(), Error> {
        self.amend(owner, Sign::Stands, label(kind, name))
    }

    /// Notes that it does not any more.
    pub(super) fn remove(&self, owner: &Owner, kind: Kind, name: &str) -> Result<(), Error> {
        self.amend(owner, Sign::Gone, label(kind, name))
    }

    /// Takes the notes of every owner away of what does not stand.
    pub(super) fn sweep(
        &self,
        stands: impl Fn(Kind, &str) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        entries(&self.root)?.iter().try_for_each(|it| {
            match self.sweep_file(&self.root.join(it), &stands) {
                // It stays for a person to look at.
                Err(Error::Corrupt { .. }) => Ok(()),
                swept => swept,
            }
        })
    }

    /// The same of one owner.
    pub(super) fn sweep_of(
        &self,
        kind: Kind,
        name: &str,
        stands: impl Fn(Kind, &str) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.sweep_file(&self.path(kind, name), &stands)
    }

    fn path(&self, kind: Kind, name: &str) -> PathBuf {
        self.root.join(label(kind, name))
    }

    fn amend(&self, owner: &Owner, sign: Sign, label: String) -> Result<(), Error> {
        let path = self.path(owner.kind, &owner.name);
        let content = lines::read(&path)?;
        let mut noted = match &content {
            Some(content) => noted(content, &path)?,
            None => BTreeSet::new(),
        };
        let line = format!("{}{label}\n", sign.as_char());
        let is_news = match sign {
            Sign::Stands => noted.insert(label),
            Sign::Gone => noted.remove(&label),
        };
        match content {
            _ if noted.is_empty() => remove(&path),
            _ if !is_news => Ok(()),
            None => write_private(&path, line.as_bytes()).map_err(Error::disk(&path)),
            Some(content) if lines::takes(&content, line.as_bytes()) => {
                lines::append(&path, line.as_bytes()).map_err(Error::disk(&path))
            }
            Some(_) => self.write(&path, &noted),
        }
    }

    fn sweep_file(
        &self,
        path: &Path,
        stands: &impl Fn(Kind, &str) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let Some(content) = lines::read(path)? else { return Ok(()) };
        let noted = noted(&content, path)?;
        let mut kept = BTreeSet::new();
        for label in &noted {
            if let Some((kind, name)) = labelled(label)
                && stands(kind, &name)?
            {
                kept.insert(label.clone());
            }
        }
        if kept.is_empty() {
            remove(path)
        } else if kept == noted {
            Ok(())
        } else {
            self.write(path, &kept)
        }
    }

    /// Writes the file of an owner anew.
    fn write(&self, path: &Path, noted: &BTreeSet<String>) -> Result<(), Error> {
        let line = |label: &String| format!("{}{label}\n", Sign::Stands.as_char());
        let content: String = noted.iter().map(line).collect();
        lines::replace(&self.aside, path, content.as_bytes())
    }
}

impl Sign {
    const fn as_char(self) -> char {
        match self {
            Self::Stands => '+',
            Self::Gone => '-',
        }
    }
}

/// What the lines of a file leave. One that does not end was torn by a crash; any other that cannot
/// be read may be about something that stands.
fn noted(content: &[u8], path: &Path) -> Result<BTreeSet<String>, Error> {
    let corrupt = || Error::Corrupt { path: path.to_owned() };
    let mut noted = BTreeSet::new();
    for line in content.split_inclusive(|it| *it == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { continue };
        let line = str::from_utf8(line).map_err(|_| corrupt())?;
        let stands = line.strip_prefix(Sign::Stands.as_char());
        let label = stands.or_else(|| line.strip_prefix(Sign::Gone.as_char()));
        let label = label.filter(|it| labelled(it).is_some()).ok_or_else(corrupt)?;
        if stands.is_some() {
            noted.insert(label.to_owned());
        } else {
            noted.remove(label);
        }
    }
    Ok(noted)
}

fn remove(path: &Path) -> Result<(), Error> {
    ignore_missing(fs::remove_file(path)).map_err(Error::disk(path))
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
