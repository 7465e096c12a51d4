//! Lists the machines of a provider: everything now and then, else what changed.
//!
//! **Invariants**
//! - A list goes on where the one before ended only if nothing of that one was lost: every record
//!   was handed to its machine, became a row, or is asked for by name.
//! - A list that is not believed is followed by a full one.

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

/// How many machines are taken over in one transaction.
const TOGETHER: usize = 500;
/// How many machines whose records could not be read are asked for after one list.
const ASKED_MAX: usize = 100;

/// Lists for one epoch.
pub struct Lister {
    epoch: Arc<Epoch>,
    /// Where the next list goes on; empty if it begins anew.
    revision: Bytes,
    /// When everything is listed again.
    full_at: Instant,
    /// Machines without a row whose records could not be read.
    unread: BTreeSet<MachineId>,
    /// Machines whose rows belong to another shard.
    foreign: BTreeSet<MachineId>,
}

/// Why a list brought nothing.
enum Failed {
    Provider(Failure),
    Store(Error),
}

impl Lister {
    /// A lister that knows nothing yet.
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
                    let soon = Instant::now() + self.epoch.figures.passing;
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
                        tracing::warn!(%class, error = text, "cannot list machines");
                    }
                    Err(Failed::Store(error)) => {
                        self.begin_anew();
                        tracing::warn!(error = %chain(&error), "cannot keep what was listed");
                    }
                },
            }
            next = begun + self.pause();
            self.epoch.stirred.notify_one();
            self.epoch.replan.notify_one();
        }
    }

    /// How long until the next list: whoever is on its way is not kept waiting.
    fn pause(&self) -> Duration {
        let is_passing = self.epoch.memory().passing() > 0;
        if is_passing { self.epoch.figures.passing } else { self.epoch.figures.cycle }
    }

    /// One list, and all that follows from it.
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
        let (now, rail) = (self.epoch.now(), Some(self.epoch.figures.rail));
        let taken = self.epoch.memory().take_in(readings, (scope, stamp), rail, now);
        self.epoch.stirred.notify_one();
        self.tell(&taken, scope);
        if scope == Scope::Full {
            // Whoever was another shard's may be nobody's by now.
            self.foreign.clear();
        }
        let lossy = taken.is_lossy;
        let credence = taken.credence;
        self.unread.extend(taken.unread);
        self.take_over(taken.new).await.map_err(Failed::Store)?;
        self.ask_for_unread().await?;
        if scope == Scope::Full {
            self.full_at = begun + self.epoch.figures.full_list;
            let credence = credence.unwrap_or(Credence::Cut);
            self.write_down(credence, &listed.revision).await.map_err(Failed::Store)?;
        }
        let believed = credence.is_none_or(|it| it == Credence::Whole);
        if !believed {
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
                tracing::warn!(%credence, "the list of machines is not believed: nobody is gone");
            }
        }
        if !taken.refused.is_empty() {
            let first = taken.refused.first().map(super::lists::Wrong::as_str);
            let count = taken.refused.len();
            tracing::warn!(count, first, scope = scope.as_str(), "records were refused");
        }
    }

    /// Takes over machines that no row of ours knows.
    async fn take_over(&mut self, new: Vec<Report>) -> Result<(), Error> {
        let new: Vec<Report> =
            new.into_iter().filter(|it| !self.foreign.contains(it.id())).collect();
        for reports in new.chunks(TOGETHER) {
            let lease = self.epoch.lease();
            let (now, provider) = (self.epoch.now(), self.epoch.provider.name());
            let found = |it: &Report| adopt(it, provider, &lease.shard, now).ok();
            let adopted: Vec<Adopted> = reports.iter().filter_map(found).collect();
            let cycle = Cycle { lease, writes: vec![], adopted: adopted.clone(), lists: vec![] };
            let written = self.epoch.store.commit_cycle(cycle).await?;
            let mut memory = self.epoch.memory();
            for (Adopted { machine, .. }, life) in adopted.iter().zip(written.adopted) {
                let Some(life) = life else {
                    self.foreign.insert(machine.id().clone());
                    continue;
                };
                let slot = memory.note(life, usher_kernel::Version(1), machine);
                memory.name_in_list(&BTreeSet::from([slot.0]));
                if machine.phase().is_passing() {
                    memory.wake(slot, now);
                }
                self.epoch.tally.count(Done::Adopted);
            }
        }
        Ok(())
    }

    /// Asks for machines by name whose records could not be read, until they can.
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
