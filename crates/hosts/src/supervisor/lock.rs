//! Locks of a record: who holds one, asked without taking it.
//!
//! A process takes a record lock on a file, so the kernel itself names the holder. Its supervisor
//! takes a lock on the folder, which needs no file, and which belongs to what it opened, so that
//! nothing else this process opens and closes lets it go.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Who holds a process's lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody, or there is no such file.
    Nobody,
    /// The process with this number.
    Process(i32),
    /// A supervisor that takes the record away, or a process whose number we may not know.
    Somebody,
}

/// Who holds it right now.
pub(super) fn holder(path: &Path) -> io::Result<Holder> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Holder::Nobody),
        Err(why) => return Err(why),
    };
    let mut range = whole_file();
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut range))?;
    if i32::from(range.l_type) == libc::F_UNLCK {
        return Ok(Holder::Nobody);
    }
    Ok(if range.l_pid > 0 { Holder::Process(range.l_pid) } else { Holder::Somebody })
}

/// Takes a process's lock file in place of the process; `None` if somebody holds it.
pub(super) fn seize(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
        Ok(_) => Ok(Some(file)),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// What a supervisor holds of a record.
#[derive(Debug)]
pub(super) struct Kept {
    /// The lock.
    pub(super) lock: File,
    /// Open for writing and never written: its closing, which no death can prevent, is what the
    /// other supervisors see.
    _bell: File,
}

/// Takes the supervisor's lock of a record, which is that of its folder; `None` if another
/// supervisor holds it. It rings with the process's lock file, which is made if nobody did yet.
pub(super) fn keep(folder: &Path, bell: &Path) -> io::Result<Option<Kept>> {
    let lock = File::open(folder)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Kept { lock, _bell: open(bell)? })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Opens a process's lock file for writing; makes it if it is not there.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn whole_file() -> libc::flock {
    libc::flock {
        l_type: short(libc::F_WRLCK),
        l_whence: short(libc::SEEK_SET),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// These constants are small; the headers give them as `int`.
fn short(constant: libc::c_int) -> libc::c_short {
    libc::c_short::try_from(constant).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_holds_what_is_not_there_or_was_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(holder(&path).unwrap(), Holder::Nobody);
        let held = seize(&path).unwrap();
        assert!(held.is_some());
        assert_eq!(holder(&path).unwrap(), Holder::Somebody);
        assert!(seize(&path).unwrap().is_none(), "a second one does not get it");
        drop(held);
        assert_eq!(holder(&path).unwrap(), Holder::Nobody);
    }

    #[test]
    fn asking_does_not_let_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = seize(&path).unwrap();
        for _ in 0..3 {
            assert_eq!(holder(&path).unwrap(), Holder::Somebody);
        }
    }

    #[test]
    fn one_supervisor_keeps_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let bell = dir.path().join("lock");
        let keep = || keep(dir.path(), &bell).unwrap();
        let kept = keep();
        assert!(kept.is_some());
        assert!(keep().is_none());
        assert_eq!(holder(&bell).unwrap(), Holder::Nobody, "the process can still have its own");
        drop(kept);
        assert!(keep().is_some());
    }
}
