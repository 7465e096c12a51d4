//! The locks of a record, and how to query a holder without taking the lock.
//!
//! A process takes a record lock on a file, so the kernel reports the pid of the holder. Its
//! supervisor locks the folder, which needs no file; that lock belongs to the open file
//! description, so it is not released when this process closes another descriptor of the folder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// The holder of the lock file of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The lock is free, or the file does not exist.
    Free,
    /// The process with this pid.
    Process(i32),
    /// A supervisor that removes the record, or a process whose pid is not visible.
    Unidentified,
}

pub(super) fn holder(path: &Path) -> io::Result<Holder> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Holder::Free),
        Err(why) => return Err(why),
    };
    let mut range = whole_file();
    fcntl(&file, FcntlArg::F_OFD_GETLK(&mut range))?;
    if i32::from(range.l_type) == libc::F_UNLCK {
        return Ok(Holder::Free);
    }
    Ok(if range.l_pid > 0 { Holder::Process(range.l_pid) } else { Holder::Unidentified })
}

/// Takes the lock file of a process in its place; `None` if the lock is held.
pub(super) fn seize(path: &Path) -> io::Result<Option<File>> {
    let file = open(path)?;
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
        Ok(_) => Ok(Some(file)),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// The locks that a supervisor holds of a record.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) lock: File,
    /// Open for writing and never written: the kernel closes it even after a crash, and the other
    /// supervisors see that event.
    _bell: File,
}

/// Takes the supervisor's lock of a record, on its folder; `None` if another supervisor holds it.
/// Also opens `bell`, the lock file of the process, which is created if it does not exist.
pub(super) fn keep(folder: &Path, bell: &Path) -> io::Result<Option<Kept>> {
    let lock = File::open(folder)?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(Kept { lock, _bell: open(bell)? })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// Opens the lock file of a process for writing; creates it if it does not exist.
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
    use std::time::{Duration, Instant};

    use super::*;

    /// Waits for a released lock: a process that another test starts has a copy of the descriptor
    /// until it executes its program.
    fn wait_until(released: impl Fn() -> bool) {
        let begun = Instant::now();
        while !released() {
            assert!(begun.elapsed() < Duration::from_mins(2), "the lock was not released");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_missing_or_released_lock_has_no_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(holder(&path).unwrap(), Holder::Free);
        let held = seize(&path).unwrap();
        assert!(held.is_some());
        assert_eq!(holder(&path).unwrap(), Holder::Unidentified);
        assert!(seize(&path).unwrap().is_none(), "a second lock is refused");
        drop(held);
        wait_until(|| holder(&path).unwrap() == Holder::Free);
    }

    #[test]
    fn querying_the_holder_does_not_release_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _held = seize(&path).unwrap();
        for _ in 0..3 {
            assert_eq!(holder(&path).unwrap(), Holder::Unidentified);
        }
    }

    #[test]
    fn only_one_supervisor_locks_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let bell = dir.path().join("lock");
        let keep = || keep(dir.path(), &bell).unwrap();
        let kept = keep();
        assert!(kept.is_some());
        assert!(keep().is_none());
        assert_eq!(holder(&bell).unwrap(), Holder::Free, "the process can take its own");
        drop(kept);
        wait_until(|| keep().is_some());
    }
}
