//! Lists the machines of a provider: full lists periodically, changes otherwise.
//!
//! **Invariants**
//! - A list continues where the previous one ended only if no record of that one was lost: every
//!   record was delivered to its machine, became a row, or is read by id.
//! - A list that is not trusted is followed by a full one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use usher_domain::fleet::accept::{Adopted, Report, adopt};
use usher_domain::fleet::ident::MachineId;
use usher_domain::fleet::list::Credence;
use usher_store::{Cycle, Error, List};

use super::epoch::Epoch;
use super::lists::{Scope, Taken, read};
use super::provider::Failure;
use super::tally::Done;
use crate::shard::stopped;
use usher_wire::chain;

/// The most machines adopted in one transaction.
const ADOPTED_MAX: usize = 500;
/// The most machines with undecodable records that are read by id after one list.
const ASKED_MAX: usize = 100;

/// The lister of one epoch.
pub struct Lister {
    epoch: Arc<Epoch>,
    /// Where the next list continues; empty for a full one.
    revision: Bytes,
    /// When the next full list is due.
    full_at: Instant,
    /// Machines without a row whose records could not be decoded.
    unread: BTreeSet<MachineId>,
    /// Machines whose rows belong to another shard.
    foreign: BTreeSet<MachineId>,
}

/// Why a list failed.
enum Failed {
    Provider(Failure),
    Store(Error),
}

impl Lister {
    /// A lister without a cursor.
    pub fn new(epoch: Arc<Epoch>) -> Self {
        Self {
            epoch,
            revision: Bytes::new(),
            full_at: Instant::now(),
            unread: BTreeSet::new(),
            foreign: BTreeSet::new(),
        }
    }

    /// Lists until the epoch ends.
    pub async fn run(mut self, mut ended: watch::Receiver<bool>) {
        let mut next = Instant::now();
        loop {
            tokio::select! {
                () = stopped(&mut ended) => return,
                () = sleep_until(next) => {}
                () = self.epoch.relist.notified() => {
                    let soon = Instant::now() + self.epoch.config.passing;
                    next = next.min(soon);
                    continue;
                }
            }
            let begun = Instant::now();
            tokio::select! {
                () = stopped(&mut ended) => return,
                done = self.list() => match done {
                    Ok(()) => {}
                    Err(Failed::Provider(Failure { class, text, .. })) => {
                        self.epoch.tally.count(Done::Unanswered);
                        tracing::warn!(%class, error = text, "failed to list machines");
                    }
                    Err(Failed::Store(error)) => {
                        self.begin_anew();
                        tracing::warn!(error = %chain(&error), "failed to store listed machines");
                    }
                },
            }
            next = begun + self.pause();
            self.epoch.wakeup.notify_one();
            self.epoch.replan.notify_one();
        }
    }

    /// Time to the next list: shorter while machines are in transition.
    fn pause(&self) -> Duration {
        let is_passing = self.epoch.memory().passing() > 0;
        if is_passing { self.epoch.config.passing } else { self.epoch.config.cycle }
    }

    /// One list, and everything that follows from it.
    async fn list(&mut self) -> Result<(), Failed> {
        let begun = Instant::now();
        let is_full = self.revision.is_empty() || begun >= self.full_at;
        let scope = if is_full { Scope::Full } else { Scope::Delta };
        let since = if is_full { Bytes::new() } else { self.revision.clone() };
        let stamp = {
            let mut memory = self.epoch.memory();
            memory.settle_overdue(self.epoch.now());
            memory.stamp()
        };
        let listed = self.epoch.provider.list(since).await.map_err(Failed::Provider)?;
        let readings = read(listed.entries);
        let (now, guard) = (self.epoch.now(), Some(self.epoch.config.guard));
        let taken = self.epoch.memory().take_in(readings, (scope, stamp), guard, now);
        self.epoch.wakeup.notify_one();
        self.tell(&taken, scope);
        if scope == Scope::Full {
            // A machine of another shard may have been released by now.
            self.foreign.clear();
        }
        let lossy = taken.is_lossy;
        let credence = taken.credence;
        self.unread.extend(taken.unread);
        self.take_over(taken.new).await.map_err(Failed::Store)?;
        self.ask_for_unread().await?;
        if scope == Scope::Full {
            self.full_at = begun + self.epoch.config.full_list;
            let credence = credence.unwrap_or(Credence::Cut);
            self.write_down(credence, &listed.revision).await.map_err(Failed::Store)?;
        }
        let trusted = credence.is_none_or(|it| it == Credence::Whole);
        if !trusted {
            self.begin_anew();
        } else if !lossy {
            self.revision = listed.revision;
        }
        self.epoch.tally.listed(scope, credence, begun.elapsed());
        Ok(())
    }

    fn begin_anew(&mut self) {
        self.revision = Bytes::new();
    }

    fn tell(&self, taken: &Taken, scope: Scope) {
        self.epoch.tally.reject(&taken.refused);
        match taken.credence {
            Some(Credence::Whole) | None => {}
            Some(credence @ (Credence::Cut | Credence::TooSmall)) => {
                tracing::warn!(%credence, "machine list not trusted: no machine counts as gone");
            }
        }
        if !taken.refused.is_empty() {
            let first = taken.refused.first().map(super::lists::Wrong::as_str);
            let count = taken.refused.len();
            tracing::warn!(count, first, scope = scope.as_str(), "machine records refused");
        }
    }

    /// Adopts machines without a row.
    async fn take_over(&mut self, new: Vec<Report>) -> Result<(), Error> {
        let new: Vec<Report> =
            new.into_iter().filter(|it| !self.foreign.contains(it.id())).collect();
        for reports in new.chunks(ADOPTED_MAX) {
            let lease = self.epoch.lease();
            let (now, provider) = (self.epoch.now(), self.epoch.provider.name());
            let found = |it: &Report| adopt(it, provider, &lease.shard, now).ok();
            let adopted: Vec<Adopted> = reports.iter().filter_map(found).collect();
            let cycle = Cycle { lease, writes: vec![], adopted: adopted.clone(), lists: vec![] };
            let written = self.epoch.store.commit_cycle(cycle).await?;
            let mut memory = self.epoch.memory();
            for (Adopted { machine, .. }, record_id) in adopted.iter().zip(written.adopted) {
                let Some(record_id) = record_id else {
                    self.foreign.insert(machine.id().clone());
                    continue;
                };
                let slot = memory.note(record_id, usher_kernel::Version(1), machine);
                memory.name_in_list(&BTreeSet::from([slot.0]));
                if machine.phase().is_passing() {
                    memory.wake(slot, now);
                }
                self.epoch.tally.count(Done::Adopted);
            }
        }
        Ok(())
    }

    /// Reads machines by id whose records could not be decoded, until they can.
    async fn ask_for_unread(&mut self) -> Result<(), Failed> {
        let asked: Vec<MachineId> = self.unread.iter().take(ASKED_MAX).cloned().collect();
        for id in asked {
            let known = self.epoch.memory().find(&id).is_some();
            let found = if known {
                None
            } else {
                self.epoch.tally.count(Done::Gets);
                self.epoch.provider.get(&id).await.map_err(Failed::Provider)?
            };
            let Some(raw) = found else {
                self.unread.remove(&id);
                continue;
            };
            if let Ok(report) = self.epoch.tally.read(Report::read(&raw)) {
                self.unread.remove(&id);
                self.take_over(vec![report]).await.map_err(Failed::Store)?;
            }
        }
        Ok(())
    }

    async fn write_down(&self, credence: Credence, revision: &Bytes) -> Result<(), Error> {
        let provider = self.epoch.provider.name().to_owned();
        let list = List { provider, revision: revision.to_vec(), credence };
        let lease = self.epoch.lease();
        let cycle = Cycle { lease, writes: vec![], adopted: vec![], lists: vec![list] };
        self.epoch.store.commit_cycle(cycle).await.map(|_| ())
    }
}
