//! Supervises processes that outlive it.
//!
//! ```text
//!   record ──▶ start ──▶ running ──▶ (exited: restart with back-off)
//!                          │  ╲─ left ──▶ not restarted
//!                          └─ stop: SIGTERM, after the grace SIGKILL ──▶ record erased
//! ```
//!
//! The local world and the local provider both use it.
//!
//! **Invariants**
//! - A process takes its lock before it does anything else, and exits if it cannot. So a second
//!   start is harmless, and a supervisor may crash at any point.
//! - Only the holder of the supervisor's lock of a record supervises it.
//! - A record is erased only while the supervisor holds the lock of the process: a process that was
//!   started and has not taken its lock yet finds no record, and exits.
//! - A signal goes to the process that holds the lock, through a pidfd that cannot name another.

mod lock;
mod rules;
mod unit;

pub use lock::Holder;
use lock::Kept;
use rules::SOON;
pub use rules::{Act, Memory, Process, Wanted, rules};
pub use unit::{LEFT, PROCESS_LOCK, Unit, Units};
pub use unit::{has_entries, ignore_missing, private_folder, rename_exclusively, write_private};

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use usher_kernel::Timestamp;

use usher_failpoint::Failpoint;

/// The result of one reconcile of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Another supervisor holds it; its exit is seen as a change of the record.
    Elsewhere,
    /// Nothing to do before something changes.
    Resting,
    /// Requeue at this time.
    Waiting(Timestamp),
    /// No record and no process exist.
    Gone,
}

/// A supervisor of the records below one root.
#[derive(Debug)]
pub struct Supervisor {
    units: Units,
    tended: BTreeMap<String, Tended>,
    /// Children that were killed and not reaped yet.
    killed: Vec<Child>,
}

/// The state of one supervised record.
#[derive(Debug)]
struct Tended {
    kept: Kept,
    /// The process that this supervisor started, to be reaped.
    child: Option<Child>,
    /// Pid and pidfd of the last known lock holder.
    handle: Option<(i32, OwnedFd)>,
    memory: Memory,
}

impl Supervisor {
    pub const fn new(units: Units) -> Self {
        Self { units, tended: BTreeMap::new(), killed: Vec::new() }
    }

    /// The names it supervises, with or without a record.
    pub fn tended(&self) -> impl Iterator<Item = &str> {
        self.tended.keys().map(String::as_str)
    }

    /// The last known process: its pid, and a pidfd that signals its exit.
    pub fn running(&self, name: &str) -> Option<(i32, &OwnedFd)> {
        self.tended.get(name)?.handle.as_ref().map(|(number, handle)| (*number, handle))
    }

    /// Reconciles one record: takes its next step.
    pub fn tend(&mut self, name: &str, wanted: Wanted, now: Timestamp) -> io::Result<Outcome> {
        if !self.units.exists(name)? {
            return self.forget(name, now);
        }
        // A process that runs externally needs no lock, and no open file.
        if wanted == Wanted::Hold && !self.tended.contains_key(name) {
            return Ok(Outcome::Resting);
        }
        let (unit, wanted) = match self.units.read(name) {
            Ok(Some(unit)) => (Some(unit), wanted),
            // The purpose of an unreadable record is unknown: its process is stopped, and its owner
            // records it again.
            Ok(None) => (None, Wanted::Stop),
            Err(why) if why.kind() == io::ErrorKind::InvalidData => (None, Wanted::Stop),
            Err(why) => return Err(why),
        };
        if !self.keep(name)? {
            return Ok(Outcome::Elsewhere);
        }
        let Some(tended) = self.tended.get_mut(name) else { return Ok(Outcome::Elsewhere) };
        let process = tended.observe(&self.units, name)?;
        let grace = Duration::from_millis(unit.as_ref().map_or(0, |it| it.grace_ms));
        match rules(wanted, process, &tended.memory, grace, now) {
            Act::Start => match &unit {
                Some(unit) => self.start(name, unit, now),
                None => Ok(Outcome::Resting),
            },
            Act::Ask => {
                tended.end(Signal::TERM)?;
                tended.memory.asked_at = Some(now);
                Ok(Outcome::Waiting(now.after(grace)))
            }
            Act::Kill => {
                tended.end(Signal::KILL)?;
                tended.memory.killed_at = Some(now);
                Ok(Outcome::Waiting(now.after(SOON)))
            }
            Act::Remove => self.remove(name, now),
            Act::Wait(until) => Ok(Outcome::Waiting(until)),
            Act::Idle => Ok(Outcome::Resting),
        }
    }

    /// Ensures that this supervisor holds the lock of a record; `false` if another one does.
    fn keep(&mut self, name: &str) -> io::Result<bool> {
        let folder = self.units.folder(name);
        if let Some(tended) = self.tended.get(name)
            && is_same(&tended.kept.lock, &folder)?
        {
            return Ok(true);
        }
        // The folder is not the one that was locked: another process removed the record and created
        // it again.
        if let Some(mut tended) = self.tended.remove(name) {
            tended.signal(Signal::KILL)?;
            self.killed.extend(tended.child);
        }
        self.killed.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        let Some(kept) = lock::keep(&folder, &folder.join(PROCESS_LOCK))? else { return Ok(false) };
        let memory = Memory::default();
        self.tended.insert(name.to_owned(), Tended { kept, child: None, handle: None, memory });
        Ok(true)
    }

    fn start(&mut self, name: &str, unit: &Unit, now: Timestamp) -> io::Result<Outcome> {
        let log = self.units.log(name)?;
        let mut command = Command::new(&unit.program);
        command
            .args(&unit.args)
            .current_dir(self.units.folder(name))
            // The environment of this process may hold secrets.
            .env_clear()
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A signal to the supervisor's group does not reach it.
            .process_group(0);
        Failpoint::BeforeSpawn.pass();
        let spawned = command.spawn();
        Failpoint::AfterSpawn.pass();
        let Some(tended) = self.tended.get_mut(name) else { return Ok(Outcome::Elsewhere) };
        tended.memory = tended.memory.started(now);
        match spawned {
            Ok(child) => {
                tended.child = Some(child);
                self.units.mark_started(name)?;
                Ok(Outcome::Waiting(now.after(SOON)))
            }
            Err(why) => {
                let hopeless = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
                if hopeless.contains(&why.kind()) {
                    let program = unit.program.display();
                    self.units.fail(name, &format!("cannot start \"{program}\": {why}"))?;
                }
                Ok(Outcome::Waiting(now.after(SOON)))
            }
        }
    }

    fn remove(&mut self, name: &str, now: Timestamp) -> io::Result<Outcome> {
        let path = self.units.folder(name).join(PROCESS_LOCK);
        let Some(_in_its_place) = lock::seize(&path)? else {
            return Ok(Outcome::Waiting(now.after(SOON)));
        };
        self.units.erase(name)?;
        self.tended.remove(name);
        Ok(Outcome::Gone)
    }

    /// Kills the process of a record that is gone.
    fn forget(&mut self, name: &str, now: Timestamp) -> io::Result<Outcome> {
        let Some(tended) = self.tended.get_mut(name) else { return Ok(Outcome::Gone) };
        if tended.signal(Signal::KILL)? {
            return Ok(Outcome::Waiting(now.after(SOON)));
        }
        self.tended.remove(name);
        Ok(Outcome::Gone)
    }
}

impl Tended {
    /// Observes the process.
    fn observe(&mut self, units: &Units, name: &str) -> io::Result<Process> {
        self.reap()?;
        let running = match units.holder(name)? {
            Holder::Process(number) => {
                self.adopt(units, name, number)?;
                true
            }
            Holder::Unidentified => true,
            Holder::Free => {
                self.handle = None;
                if self.child.is_some() {
                    return Ok(Process::Booting);
                }
                false
            }
        };
        Ok(match (running, units.has_left(name)?) {
            (true, false) => Process::Running,
            (true, true) => Process::Leaving,
            (false, false) => Process::None,
            (false, true) => Process::Left,
        })
    }

    /// Opens a pidfd of the lock holder. It still holds the lock after that, so the pidfd names no
    /// other process.
    fn adopt(&mut self, units: &Units, name: &str, number: i32) -> io::Result<()> {
        if self.handle.as_ref().is_some_and(|(known, _)| *known == number) {
            return Ok(());
        }
        self.handle = None;
        let Some(pid) = Pid::from_raw(number) else { return Ok(()) };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
        if units.holder(name)? == Holder::Process(number) {
            self.handle = Some((number, handle));
        }
        Ok(())
    }

    fn reap(&mut self) -> io::Result<()> {
        if let Some(child) = &mut self.child
            && child.try_wait()?.is_some()
        {
            self.child = None;
        }
        Ok(())
    }

    /// Signals the process, between failpoints.
    fn end(&mut self, signal: Signal) -> io::Result<()> {
        Failpoint::BeforeSignal.pass();
        self.signal(signal)?;
        Failpoint::AfterSignal.pass();
        Ok(())
    }

    /// Signals the known processes; `false` if there is none.
    fn signal(&mut self, signal: Signal) -> io::Result<bool> {
        self.reap()?;
        let mut known = false;
        if let Some((_, handle)) = &self.handle {
            match pidfd_send_signal(handle, signal) {
                Ok(()) => known = true,
                Err(rustix::io::Errno::SRCH) => self.handle = None,
                Err(why) => return Err(why.into()),
            }
        }
        // The pid of a child is not reused before it is reaped.
        if let Some(child) = &self.child
            && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            match rustix::process::kill_process(pid, signal) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => known = true,
                Err(why) => return Err(why.into()),
            }
        }
        Ok(known)
    }
}

/// Whether a path still names an open file.
fn is_same(file: &File, path: &std::path::Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests;
