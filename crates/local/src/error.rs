//! What can go wrong in a world of directories.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use usher_kernel::{Trouble, Unknown};

/// Why something was not done or not seen.
#[derive(Debug, Error)]
pub enum Error {
    /// Something has the name.
    #[error("cannot create \"{name}\": the name is taken")]
    Exists {
        /// The name.
        name: String,
    },
    /// The object is not the one that was meant.
    #[error("cannot change \"{name}\": another object or none has the name")]
    NotThatOne {
        /// The name.
        name: String,
    },
    /// What it would belong to is gone.
    #[error("cannot create \"{name}\": what it belongs to is gone")]
    OwnerGone {
        /// The name.
        name: String,
    },
    /// Somebody else uses it.
    #[error("cannot delete \"{name}\": it is in use")]
    InUse {
        /// The name.
        name: String,
    },
    /// It can be no file's name.
    #[error("cannot use name \"{name}\"")]
    Name {
        /// The name.
        name: String,
    },
    /// What lies on the disk is not what was written there.
    #[error("cannot read \"{}\"", path.display())]
    Corrupt {
        /// Where.
        path: PathBuf,
    },
    /// The world was made by an earlier program.
    #[error(
        "cannot use \"{}\": an earlier version made it and kept objects otherwise; deprovision \
        everything with that version, or use another data directory",
        path.display()
    )]
    Earlier {
        /// What it made.
        path: PathBuf,
    },
    /// Another process keeps the world locked.
    #[error("cannot lock \"{}\" in time", path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// The fleet does not have or take back its machine.
    #[error("cannot have or give back the machine of \"{name}\"")]
    Fleet {
        /// The part.
        name: String,
        /// Why.
        #[source]
        trouble: Trouble,
    },
    /// The disk failed.
    #[error("cannot use \"{}\"", path.display())]
    Disk {
        /// Where.
        path: PathBuf,
        /// How.
        #[source]
        source: io::Error,
    },
}

impl Error {
    /// A failure of the disk, and where.
    pub fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Disk { path: path.to_owned(), source }
    }

    /// What a driver is told.
    pub fn trouble(&self) -> Trouble {
        match self {
            Self::Exists { name } | Self::NotThatOne { name } | Self::OwnerGone { name } => {
                Trouble::Blocked { what: name.clone() }
            }
            Self::InUse { name } | Self::Name { name } => Trouble::Rejected { what: name.clone() },
            Self::Fleet { trouble, .. } => trouble.clone(),
            Self::Corrupt { path }
            | Self::Earlier { path }
            | Self::Busy { path }
            | Self::Disk { path, .. } => Trouble::unavailable(path.display().to_string()),
        }
    }

    /// Why an answer is missing.
    pub fn unknown(&self) -> Unknown {
        match self {
            Self::Disk { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Unknown::Forbidden
            }
            Self::Exists { .. }
            | Self::NotThatOne { .. }
            | Self::OwnerGone { .. }
            | Self::InUse { .. }
            | Self::Name { .. }
            | Self::Corrupt { .. }
            | Self::Earlier { .. }
            | Self::Busy { .. }
            | Self::Fleet { .. }
            | Self::Disk { .. } => Unknown::Unreachable,
        }
    }
}
