//! The writer: checks, numbers, commits and publishes writes.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::backlog::Backlog;
use super::durability::{Durability, DurabilityError, Record};
use super::entry::{Draft, Entry};
use super::table::Change;
use super::{Progress, Shared, State};
use crate::core::text;

/// How long a batch waits at most for writers that wrote before; no longer than a commit takes.
const PATIENCE_MAX: Duration = Duration::from_millis(2);

/// The expected current version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// No object.
    Absent,
    /// The object at this revision.
    Revision(u64),
}

/// A write; without a value a removal.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) table: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) expect: Expect,
    pub(crate) value: Option<Value>,
    /// Objects that must exist.
    pub(crate) preconditions: Vec<Precondition>,
}

/// An object that must exist and not be in deletion.
#[derive(Debug)]
pub(crate) struct Precondition {
    pub(crate) table: Arc<str>,
    pub(crate) key: Arc<str>,
    /// Its uid, if it matters.
    pub(crate) uid: Option<String>,
}

/// Why a write failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WriteError {
    /// The object has changed; read again after this revision is published.
    #[error("the object has changed")]
    Changed(u64),
    /// A precondition does not hold; read again after this revision is published.
    #[error("a precondition of the write does not hold")]
    Leaving(u64),
    /// Writing has failed until a restart.
    #[error("writing has failed until a restart")]
    Failed,
}

/// Assigns revisions.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// The queue to the writer thread, if there is one.
    jobs: Option<Mutex<Option<Sender<Job>>>>,
    durability: Mutex<Option<JoinHandle<()>>>,
}

struct Job {
    table: Arc<str>,
    change: Arc<Change>,
}

impl Writer {
    /// Publishes at once, without persistence.
    pub(super) fn inline(shared: Arc<Shared>) -> Self {
        Self { shared, jobs: None, durability: Mutex::default() }
    }

    /// Publishes after the commit. While one batch is committed the next one accumulates.
    pub(super) fn threaded(
        shared: Arc<Shared>,
        durability: Box<dyn Durability>,
        backlog: Backlog,
    ) -> Result<Self, DurabilityError> {
        let (sender, receiver) = channel();
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("apiserver-durability".to_owned())
            .spawn(move || run(&theirs, (durability, backlog), &receiver))
            .map_err(|source| DurabilityError::new("start a thread for", source))?;
        let jobs = Some(Mutex::new(Some(sender)));
        Ok(Self { shared, jobs, durability: Mutex::new(Some(thread)) })
    }

    /// Refuses further writes; returns the writer thread, which ends with the last of them.
    pub(super) fn close(&self) -> Option<JoinHandle<()>> {
        let jobs = self.jobs.as_ref()?;
        jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.durability.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(super) async fn write(&self, write: Write) -> Result<Option<Arc<Entry>>, WriteError> {
        let (revision, written) = self.enter(write)?;
        if self.jobs.is_some() && !self.shared.published(revision).await {
            return Err(WriteError::Failed);
        }
        Ok(written)
    }

    fn enter(&self, write: Write) -> Result<(u64, Option<Arc<Entry>>), WriteError> {
        let draft = write.value.map(|value| Draft::new(&write.table, value));
        let mut state = self.shared.write();
        if state.failed {
            return Err(WriteError::Failed);
        }
        let place = (write.table.clone(), write.key.clone());
        if !write.preconditions.iter().all(|need| need.is_met(&state)) {
            return Err(WriteError::Leaving(state.assigned));
        }
        let current = state.newest(&place);
        let met = match (write.expect, &current) {
            (Expect::Absent, None) => true,
            (Expect::Revision(wanted), Some(entry)) => entry.revision == wanted,
            (Expect::Absent, Some(_)) | (Expect::Revision(_), None) => false,
        };
        if !met {
            return Err(WriteError::Changed(state.assigned));
        }
        state.assigned += 1;
        let revision = state.assigned;
        let written = draft.map(|draft| Arc::new(draft.stamped(revision)));
        let change = Arc::new(Change::new(revision, write.key, current, written.clone()));
        let given = written.or_else(|| change.gone.clone());
        self.submit(&mut state, place, Job { table: write.table, change });
        Ok((revision, given))
    }

    fn submit(&self, state: &mut State, place: (Arc<str>, Arc<str>), job: Job) {
        match &self.jobs {
            None => {
                publish(state, &job);
                let published = state.published;
                self.shared.progress.send_replace(Progress { published, failed: false });
            }
            Some(jobs) => {
                let change = &job.change;
                state.pending.insert(place, (change.revision, change.new.clone()));
                let sender = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                let sent = sender.as_ref().is_some_and(|sender| sender.send(job).is_ok());
                if !sent {
                    fail(&self.shared, state);
                }
            }
        }
    }
}

/// How many writes the next batch will probably have, and how long it waits for them.
#[derive(Debug, Clone, Copy)]
struct Expected {
    jobs: usize,
    patience: Duration,
}

/// The next batch; empty when there will be no more.
///
/// Writers that were answered together write again together, but not at the same instant: without
/// waiting, the first of them would be committed alone, and all others behind it.
fn gather<T>(mut batch: Vec<T>, jobs: &Receiver<T>, expected: Expected) -> Vec<T> {
    if batch.is_empty() {
        batch.extend(jobs.recv().ok());
    }
    batch.extend(jobs.try_iter());
    let started = Instant::now();
    while !batch.is_empty() && batch.len() < expected.jobs {
        let left = expected.patience.saturating_sub(started.elapsed());
        let Ok(job) = jobs.recv_timeout(left) else { break };
        batch.push(job);
        batch.extend(jobs.try_iter());
    }
    batch
}

/// The writer thread: commits queued writes as one batch and publishes them.
fn run(
    shared: &Shared,
    (mut durability, mut backlog): (Box<dyn Durability>, Backlog),
    jobs: &Receiver<Job>,
) {
    let _watched = PanicGuard(shared);
    let mut waiting = Vec::new();
    let mut expected = Expected { jobs: 1, patience: Duration::ZERO };
    loop {
        let batch = gather(std::mem::take(&mut waiting), jobs, expected);
        if batch.is_empty() {
            return;
        }
        let records: Vec<Record> = batch.iter().map(Job::record).collect();
        let started = Instant::now();
        if let Err(error) = durability.commit(&records) {
            stop_writing(shared, &error);
            return;
        }
        // Before they are answered, the writers of this batch cannot be among those that wait.
        waiting.extend(jobs.try_iter());
        let patience = started.elapsed().min(PATIENCE_MAX);
        expected = Expected { jobs: batch.len() + waiting.len(), patience };
        let mut state = shared.write();
        for job in &batch {
            let place = (job.table.clone(), job.change.key.clone());
            if state.pending.get(&place).is_some_and(|(newest, _)| *newest <= job.change.revision) {
                state.pending.remove(&place);
            }
            publish(&mut state, job);
        }
        let (published, failed) = (state.published, state.failed);
        // Sent under the lock, so that it cannot overwrite a failure.
        shared.progress.send_replace(Progress { published, failed });
        drop(state);
        for record in &records {
            backlog.push(record);
        }
        if let Some(revision) = backlog.forget()
            && let Err(error) = durability.compact(revision)
        {
            stop_writing(shared, &error);
            return;
        }
    }
}

fn stop_writing(shared: &Shared, error: &DurabilityError) {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "failed to commit; the API server refuses writes until a restart");
    fail(shared, &mut shared.write());
}

/// Marks the store as failed if the writer thread panics.
struct PanicGuard<'a>(&'a Shared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            fail(self.0, &mut self.0.write());
        }
    }
}

fn publish(state: &mut State, job: &Job) {
    state.table(&job.table).apply(job.change.clone());
    state.published = job.change.revision;
}

fn fail(shared: &Shared, state: &mut State) {
    state.failed = true;
    let published = state.published;
    shared.progress.send_replace(Progress { published, failed: true });
}

impl Precondition {
    fn is_met(&self, state: &State) -> bool {
        let found = state.newest(&(self.table.clone(), self.key.clone()));
        found.is_some_and(|entry| {
            let is_meant = |uid: &str| text(&entry.head(), "/metadata/uid") == uid;
            !entry.is_deleting() && self.uid.as_deref().is_none_or(is_meant)
        })
    }
}

impl Job {
    fn record(&self) -> Record {
        Record {
            revision: self.change.revision,
            table: self.table.clone(),
            key: self.change.key.clone(),
            old: self.change.old.as_ref().map(|entry| entry.json()),
            new: self.change.new.as_ref().map(|entry| entry.json()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    /// Red by: a batch of one for the first of many writers.
    // Requirement: AK-95
    #[test]
    fn a_batch_waits_for_the_writers_of_the_one_before() {
        let (sender, jobs) = channel();
        sender.send(1).expect("sent");
        let later = sender.clone();
        let writer =
            std::thread::spawn(move || (2..=4).for_each(|it| later.send(it).expect("sent")));
        let expected = Expected { jobs: 5, patience: LONG };
        assert_eq!(gather(vec![0], &jobs, expected), [0, 1, 2, 3, 4]);
        writer.join().expect("an end");
        drop(sender);
        assert_eq!(gather(Vec::new(), &jobs, expected), Vec::<i32>::new());
    }

    /// Red by: a wait for a writer that went away, or in a batch of a single writer.
    // Requirement: AK-95
    #[test]
    fn a_batch_waits_no_longer_than_it_should() {
        let (sender, jobs) = channel();
        let gone = Expected { jobs: 16, patience: Duration::from_millis(1) };
        sender.send(1).expect("sent");
        assert_eq!(gather(Vec::new(), &jobs, gone), [1]);
        let single = Expected { jobs: 1, patience: LONG };
        sender.send(2).expect("sent");
        assert_eq!(gather(Vec::new(), &jobs, single), [2]);
        sender.send(3).expect("sent");
        drop(sender);
        let ended = Expected { jobs: 16, patience: LONG };
        assert_eq!(gather(Vec::new(), &jobs, ended), [3], "no more can come");
    }
}
