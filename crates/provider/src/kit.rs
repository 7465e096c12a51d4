//! The kit joins provider state, journal and substrate.
//!
//! ```text
//!   request ─▶ state ─▶ journal ─durable─▶ response
//!                        │
//!                        └─durable─▶ verb of the substrate ─▶ state ─▶ journal
//! ```
//!
//! **Invariants**
//! - No response is sent and no verb is started before its entry is durable.
//! - An interrupted verb is run again under the same operation id.
//! - A verb that ends after its timeout changes nothing; the host it made is deleted.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use usher_failpoint::Failpoint;
use usher_wire::fleet::{ListFilter, Machine, MachineList};

use crate::backend::{Backend, Command, CreatedHost, Fault, invalid_offer, is_named};
use crate::journal::{self, Config, Journal};
use crate::state::{
    Accepted, Entry, Kind, ProviderState, Refusal, TransitionRequest, VerbOutcome, Work,
};

/// The back-off of a verb, at first and at most.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Concurrent verbs of a substrate.
const VERBS_MAX: usize = 4_096;

/// Options of a provider.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file of the state; `None` keeps it in memory.
    pub state: Option<PathBuf>,
    /// A number that no other state has.
    pub nonce: u64,
    /// The timeout of each verb.
    pub timeouts: Timeouts,
    /// How often the substrate is polled for lost hosts and changed offers; `None` never.
    pub poll_interval: Option<Duration>,
    /// A snapshot is taken after this many bytes were appended to the journal.
    pub snapshot_after_bytes: u64,
    /// How long the blob of an ended Configure may stay in the journal; `None` for ever.
    pub forget_blobs_after: Option<Duration>,
}

/// The timeout of each verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Of Create.
    pub create: Duration,
    /// Of Configure, until the node is ready.
    pub configure: Duration,
    /// Of Drain, in addition to its grace period.
    pub drain: Duration,
    /// Of Delete and Salvage.
    pub delete: Duration,
}

/// Why a provider did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The journal failed.
    #[error("failed to open the journal")]
    Journal(#[source] journal::Error),
    /// The substrate could not be listed.
    #[error("failed to list the machines of the substrate")]
    Describe(#[source] Fault),
    /// The substrate offers an invalid machine.
    #[error("invalid offer: {what}")]
    Offer {
        /// What is wrong.
        what: String,
    },
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KitError {
    /// The request was refused.
    #[error(transparent)]
    Refused(Refusal),
    /// The entry could not be written.
    #[error("failed to write the journal: no request is accepted until a restart")]
    Journal,
}

/// A provider.
#[derive(Debug)]
pub struct Kit<B> {
    inner: Arc<Inner<B>>,
}

#[derive(Debug)]
struct Inner<B> {
    backend: B,
    options: Options,
    shared: Mutex<Shared>,
    journal: Journal,
    verbs: Semaphore,
}

/// The state and the number of entries made of it.
#[derive(Debug)]
struct Shared {
    state: ProviderState,
    number: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            state: None,
            nonce: 0,
            timeouts: Timeouts::default(),
            poll_interval: Some(Duration::from_secs(30)),
            snapshot_after_bytes: 16 << 20,
            forget_blobs_after: Some(Duration::from_mins(10)),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        let minutes = Duration::from_mins;
        Self { create: minutes(5), configure: minutes(5), drain: minutes(10), delete: minutes(5) }
    }
}

impl Timeouts {
    /// The same timeout for every verb.
    pub const fn all(time: Duration) -> Self {
        Self { create: time, configure: time, drain: time, delete: time }
    }

    fn of(&self, work: &Work) -> Duration {
        match work.kind {
            Kind::Create => self.create,
            Kind::Configure => self.configure,
            Kind::Drain => self.drain.saturating_add(work.grace),
            Kind::Delete | Kind::Salvage => self.delete,
        }
    }
}

impl<B> Clone for Kit<B> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<B: Backend> Kit<B> {
    /// Opens the state, lists the substrate and resumes interrupted work.
    pub async fn start(backend: B, options: Options) -> Result<Self, StartError> {
        let offers = backend.describe().await.map_err(StartError::Describe)?;
        if let Some(what) = offers.iter().find_map(invalid_offer) {
            return Err(StartError::Offer { what });
        }
        let (handle, snapshot_due) = std::sync::mpsc::channel::<Weak<Inner<B>>>();
        let (journal, state) = open(&options, snapshot_due)?;
        let inner = Arc::new(Inner {
            backend,
            options,
            shared: Mutex::new(Shared { state, number: 0 }),
            journal,
            verbs: Semaphore::new(VERBS_MAX),
        });
        let _ = handle.send(Arc::downgrade(&inner));
        let kit = Self { inner };
        let last = kit.update_offers(offers);
        kit.inner.journal.wait_durable(last).await.map_err(StartError::Journal)?;
        let pending = kit.inner.shared().state.pending();
        for work in pending {
            kit.dispatch(work, last);
        }
        kit.spawn_poll();
        Ok(kit)
    }

    /// The backend of this provider.
    pub fn backend(&self) -> &B {
        &self.inner.backend
    }

    /// Runs a verb on a machine; returns once it is accepted.
    pub async fn transition(&self, request: &TransitionRequest) -> Result<Accepted, KitError> {
        let (result, number) = {
            let mut shared = self.inner.shared();
            let decision = shared.state.decide(request, self.inner.backend.deletes());
            let number = self.inner.submit(&mut shared, decision.entry);
            (decision.result, number)
        };
        if let Ok(Accepted { work: Some(work), .. }) = &result {
            // Even if the caller drops this future.
            self.dispatch(work.clone(), number);
        }
        self.inner.journal.wait_durable(number).await.map_err(|_| KitError::Journal)?;
        result.map_err(KitError::Refused)
    }

    /// Reads one machine.
    pub async fn get(&self, id: &str) -> Result<Machine, KitError> {
        let (found, number) = {
            let shared = self.inner.shared();
            (shared.state.get(id), shared.number)
        };
        self.inner.journal.wait_durable(number).await.map_err(|_| KitError::Journal)?;
        found.map_err(KitError::Refused)
    }

    /// Lists machines.
    pub async fn list(&self, filter: &ListFilter) -> Result<MachineList, KitError> {
        let (page, nonce, number) = {
            let mut shared = self.inner.shared();
            (shared.state.list(filter), shared.state.nonce(), shared.number)
        };
        self.inner.journal.wait_durable(number).await.map_err(|_| KitError::Journal)?;
        let machines = page.records.iter().map(|it| it.machine()).collect();
        Ok(MachineList { machines, revision: page.next.to_text(nonce).into() })
    }

    /// Waits until a journal write fails: no call succeeds from then on, and only a restart finds
    /// out what the disk holds.
    pub async fn write_failed(&self) {
        self.inner.journal.write_failed().await;
    }

    /// Polls the substrate once for changed offers and lost hosts.
    pub async fn poll(&self) -> Result<(), Fault> {
        let offers = self.inner.backend.describe().await?;
        self.update_offers(offers.into_iter().filter(|it| invalid_offer(it).is_none()).collect());
        let hosted = self.inner.shared().state.hosted_machines();
        let lost = self.inner.backend.check(&hosted).await?;
        let mut shared = self.inner.shared();
        for it in lost {
            let entry = shared.state.mark_lost(&it.machine, it.reason);
            self.inner.submit(&mut shared, entry);
        }
        Ok(())
    }

    fn update_offers(&self, offers: Vec<Machine>) -> u64 {
        let mut shared = self.inner.shared();
        for offer in offers {
            let entry = shared.state.offer(offer);
            self.inner.submit(&mut shared, entry);
        }
        shared.number
    }

    fn spawn_poll(&self) {
        let Some(interval) = self.inner.options.poll_interval else { return };
        let inner = Arc::downgrade(&self.inner);
        tokio::spawn(async move {
            loop {
                sleep(interval).await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(why) = (Self { inner }).poll().await {
                    tracing::warn!(%why, "failed to poll the substrate");
                }
            }
        });
    }

    /// Runs a verb once every entry up to a number is durable.
    fn dispatch(&self, work: Work, number: u64) {
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            if inner.journal.wait_durable(number).await.is_err() {
                return;
            }
            let Ok(_permit) = inner.verbs.acquire().await else { return };
            inner.work(&work).await;
        });
    }
}

impl<B: Backend> Inner<B> {
    async fn work(&self, work: &Work) {
        let command = Command { operation: work.operation.clone(), machine: work.machine.clone() };
        let deadline = Instant::now() + self.options.timeouts.of(work);
        let mut verb = Box::pin(self.retry_until(work, &command, deadline));
        let Ok(end) = timeout_at(deadline, &mut verb).await else {
            self.end(work, VerbOutcome::Failed(format!("{} took too long", work.kind.as_str())));
            // A late success changes nothing, but its host must not be left behind.
            let late = timeout(self.options.timeouts.of(work), verb).await;
            if let (Kind::Create, Ok(VerbOutcome::Created { host, .. })) = (work.kind, late) {
                self.delete_late_host(&command, host).await;
            }
            return;
        };
        Failpoint::AfterVerb.pass();
        self.end(work, end);
        Failpoint::VerbEnded.pass();
    }

    /// Retries a verb on transient faults.
    async fn retry_until(&self, work: &Work, command: &Command, deadline: Instant) -> VerbOutcome {
        let mut backoff = RETRY_FIRST;
        loop {
            Failpoint::BeforeVerb.pass();
            match self.attempt(work, command).await {
                Ok(end) => return end,
                Err(Fault { is_transient: true, .. }) if Instant::now() + backoff < deadline => {
                    sleep(backoff).await;
                    backoff = (backoff * 2).min(RETRY_MAX);
                }
                Err(Fault { reason, .. }) => {
                    return VerbOutcome::Failed(format!("{}: {reason}", work.kind.as_str()));
                }
            }
        }
    }

    async fn attempt(&self, work: &Work, command: &Command) -> Result<VerbOutcome, Fault> {
        match work.kind {
            Kind::Create => {
                let CreatedHost { host, resources, allocatable } =
                    self.backend.create(command).await?;
                if !is_named(&host) {
                    return Err(Fault::permanent("the substrate returned no host"));
                }
                return Ok(VerbOutcome::Created { host, resources, allocatable });
            }
            Kind::Configure => {
                self.backend.configure(command, &work.blob).await?;
                self.backend.ready(command).await?;
            }
            Kind::Drain => self.backend.drain(command, work.grace).await?,
            Kind::Delete => self.backend.delete(command).await?,
            Kind::Salvage => self.backend.salvage(command, work.made_by.as_deref()).await?,
        }
        Ok(VerbOutcome::Done)
    }

    /// Deletes a host that was created after the timeout.
    async fn delete_late_host(&self, command: &Command, host: usher_wire::fleet::HostRef) {
        let mut machine = command.machine.clone();
        machine.host = Some(host);
        let operation = format!("{}-undo", command.operation);
        if let Err(why) = self.backend.delete(&Command { operation, machine }).await {
            tracing::error!(machine = command.machine.id, %why, "failed to delete a late host");
        }
    }

    fn end(&self, work: &Work, outcome: VerbOutcome) {
        let mut shared = self.shared();
        let entry = shared.state.end(&work.machine.id, &work.operation, outcome);
        self.submit(&mut shared, entry);
    }
}

impl<B> Inner<B> {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits an entry to the journal; returns the number of the newest one.
    fn submit(&self, shared: &mut Shared, entry: Option<Entry>) -> u64 {
        if let Some(entry) = entry {
            shared.number += 1;
            self.journal.submit(shared.number, entry);
        }
        shared.number
    }
}

fn open<B: Send + Sync + 'static>(
    options: &Options,
    snapshot_due: std::sync::mpsc::Receiver<Weak<Inner<B>>>,
) -> Result<(Journal, ProviderState), StartError> {
    let Some(path) = &options.state else {
        return Ok((Journal::none(), ProviderState::new(options.nonce)));
    };
    let config = Config {
        snapshot_after_bytes: options.snapshot_after_bytes,
        forget_blobs_after: options.forget_blobs_after,
    };
    let known = std::sync::OnceLock::new();
    let submit_snapshot = move || {
        let inner: &Weak<Inner<B>> = known.get_or_init(|| snapshot_due.recv().unwrap_or_default());
        if let Some(inner) = inner.upgrade() {
            let shared = inner.shared();
            inner.journal.submit_snapshot(Box::new(shared.state.entries()));
        }
    };
    Journal::open(path, options.nonce, config, submit_snapshot).map_err(StartError::Journal)
}
