//! The relay: delivers the events of the log to every sink, as `CloudEvents` over HTTP.
//!
//! ```text
//!   log ──▶ Follower ──▶ lease ──▶ POST … POST ──▶ settle (place in the log, lease back)
//!            one task, one request at a time, one batch per sink
//! ```
//!
//! **Invariants**
//! - At least once: the place in the log is written after the delivery, so that a crash between
//!   them repeats deliveries, with the same ids.
//! - In the order of the log, one delivery at a time per sink: nothing overtakes.
//! - One relay per sink at a time, by a lease; none begins a request that could outlive it.
//! - A sink that is slow, down or wrong delays no other one.
//! - While idle nothing is written and no sink is called.
//! - No secret is kept, printed or sent in the clear.

mod client;
mod envelope;
mod secret;

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep};
use usher_domain::object::slug::Slug;
use usher_domain::sinks::{Answer, Parked};
use usher_kernel::schedule::{Pace, back_off};

use crate::error::Error;
use crate::follow::{Follower, wait};
use crate::jitter;
use crate::port::{Cursor, LoggedEvent};
use crate::sinks::{RoundEnd, Settlement, SinkState};
use crate::store::Store;

use client::Client;

pub use client::Failure;
pub use envelope::envelope;
pub use secret::{Secret, Secrets, SecretsOf};

/// The settings of the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayConfig {
    /// The lease of a sink, and the back-off of one that fails.
    pub pace: Pace,
    /// How long one delivery may take; shorter than the lease.
    pub request: Duration,
    /// How many events are held in memory per sink, and repeated at most after a crash.
    pub batch: u32,
    /// How long a sink may refuse before it is parked.
    pub refused_grace: Duration,
    /// The longest pause that a sink may request.
    pub retry_after_max: Duration,
    /// How long to wait for a database that does not answer.
    pub database_pause: Duration,
    /// Certificates to trust, in PEM; without, those of the machine.
    pub ca_file: Option<std::path::PathBuf>,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            pace: Pace::default(),
            request: Duration::from_secs(10),
            batch: 64,
            refused_grace: Duration::from_hours(1),
            retry_after_max: Duration::from_hours(1),
            database_pause: Duration::from_secs(1),
            ca_file: None,
        }
    }
}

/// Delivers the log of one store to its sinks.
pub struct Relay {
    store: Arc<Store>,
    secrets: Arc<dyn Secrets>,
    config: RelayConfig,
    client: Client,
}

impl Relay {
    /// A relay that reads secrets with `secrets`.
    pub fn new(
        store: Arc<Store>,
        secrets: Arc<dyn Secrets>,
        config: RelayConfig,
    ) -> Result<Self, Failure> {
        let client = Client::new(config.ca_file.as_deref(), config.request)?;
        Ok(Self { store, secrets, config, client })
    }

    /// Delivers until `stop` ends; deliveries in progress are finished and recorded.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let relay = Arc::new(self);
        let (stopping, stopped) = watch::channel(false);
        let mut stop = pin!(stop);
        let mut tasks = JoinSet::new();
        let mut names = BTreeMap::new();
        let mut signal = relay.store.signals().sinks();
        loop {
            signal.clear();
            // A database that does not answer is retried; the tasks wait for it as well.
            if let Ok(sinks) = relay.store.sinks().await {
                names.retain(|_, task: &mut tokio::task::AbortHandle| !task.is_finished());
                for state in sinks {
                    let name = state.sink.name;
                    names.entry(name.clone()).or_insert_with(|| {
                        let (relay, stopped) = (Arc::clone(&relay), stopped.clone());
                        tasks.spawn(async move { relay.tend(name, stopped).await })
                    });
                }
            }
            tokio::select! {
                () = &mut stop => break,
                _ = wait(&mut signal, relay.store.log_poll()) => {}
                Some(_) = tasks.join_next() => {}
            }
        }
        let _ = stopping.send(true);
        while tasks.join_next().await.is_some() {}
    }

    /// Delivers to one sink until it is removed or the relay stops.
    async fn tend(&self, name: Slug, mut stopped: watch::Receiver<bool>) {
        let mut follower = self.store.follow(Cursor::START);
        let mut signal = self.store.signals().sinks();
        loop {
            signal.clear();
            let step = async {
                let state = match self.store.sink(&name).await {
                    Ok(Some(state)) => state,
                    Ok(None) => return Next::End,
                    Err(_) => return Next::Pause(self.config.database_pause),
                };
                if state.parked.is_some() {
                    return Next::Signal;
                }
                match waits(&state) {
                    Some(pause) => Next::Pause(pause),
                    None => self.gather(&mut follower, state).await,
                }
            };
            let next = tokio::select! {
                biased;
                _ = stopped.wait_for(|it| *it) => return,
                next = step => next,
                // The sinks changed; a reader that waits has lost nothing.
                () = signal.wait() => continue,
            };
            match next {
                Next::End => return,
                Next::Deliver(state, events) => {
                    let mut budget = pin!(sleep(self.budget()));
                    let round = self.round((&state, events), budget.as_mut(), &stopped);
                    if round.await.is_err() {
                        rest(self.config.database_pause, &mut stopped).await;
                    }
                }
                Next::Pause(pause) => {
                    tokio::select! {
                        _ = stopped.wait_for(|it| *it) => return,
                        () = sleep(pause) => {}
                        () = signal.wait() => {}
                    }
                }
                Next::Signal => {
                    tokio::select! {
                        _ = stopped.wait_for(|it| *it) => return,
                        _ = wait(&mut signal, self.store.log_poll()) => {}
                    }
                }
            }
        }
    }

    /// Waits for something to deliver.
    async fn gather(&self, follower: &mut Follower<'_>, state: SinkState) -> Next {
        follower.seek(state.cursor);
        match follower.next(self.config.batch).await {
            Ok(events) => Next::Deliver(Box::new(state), events),
            Err(error @ Error::Forgotten { .. }) => {
                let name = state.sink.name;
                match self.park(name, Parked::Forgotten, error.to_string()).await {
                    Ok(()) => Next::Signal,
                    Err(_) => Next::Pause(self.config.database_pause),
                }
            }
            Err(_) => Next::Pause(self.config.database_pause),
        }
    }

    /// How long deliveries may be begun under one lease: the last one ends before it does.
    fn budget(&self) -> Duration {
        self.config.pace.lease.saturating_sub(self.config.request * 3 / 2)
    }

    /// One round: lease, deliver in order, record the cursor.
    async fn round(
        &self,
        (state, events): (&SinkState, Vec<LoggedEvent>),
        mut budget: Pin<&mut Sleep>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(), Error> {
        let name = state.sink.name.clone();
        let Some(lease) = self.store.lease_sink(name, self.config.pace.lease).await? else {
            return Ok(());
        };
        let mut cursor = lease.cursor;
        let mut end = RoundEnd::Done;
        // If the place has moved since the rows were read, they are not the next ones.
        let events = if cursor == state.cursor { events } else { vec![] };
        for event in events {
            let over = tokio::select! {
                biased;
                () = &mut budget => true,
                () = std::future::ready(()) => *stopped.borrow(),
            };
            if over {
                break;
            }
            if let Err(failed) = self.deliver(&lease, &event).await {
                end = self.judge(&lease, cursor != lease.cursor, failed);
                break;
            }
            cursor = event.cursor;
        }
        self.store.settle_sink(Settlement { lease, cursor, end }).await?;
        Ok(())
    }

    async fn deliver(&self, lease: &SinkState, logged: &LoggedEvent) -> Result<(), Failed> {
        let id = logged.id.to_string();
        let event = envelope(self.store.installation().id, logged);
        let body = serde_json::to_vec(&event).unwrap_or_default();
        let headers = match &lease.sink.proof {
            Some(proof) => {
                let secret = self.secrets.read(&proof.secret).ok_or_else(Failed::secret)?;
                secret.prove(proof.scheme, (&id, lease.now), &body)
            }
            None => vec![],
        };
        let answered = self.client.post(&lease.sink.url, headers, body).await;
        let answered = answered.map_err(|failure| Failed {
            answer: Answer::Later,
            retry_after: None,
            trouble: failure.to_string(),
        })?;
        match Answer::of(answered.status) {
            Answer::Taken => Ok(()),
            answer @ (Answer::Later | Answer::Refused | Answer::Gone) => Err(Failed {
                answer,
                retry_after: answered.retry_after,
                // Nothing of the body: it is untrusted text and might repeat our secret.
                trouble: format!("it answered {}", answered.status),
            }),
        }
    }

    /// What follows from a delivery that failed.
    fn judge(&self, lease: &SinkState, progress: bool, failed: Failed) -> RoundEnd {
        let Failed { answer, retry_after, trouble } = failed;
        let (attempts, failing) = match lease.failing_since {
            Some(since) if !progress => (lease.attempts.saturating_add(1), lease.now.since(since)),
            Some(_) | None => (1, Duration::ZERO),
        };
        if let Some(why) = answer.parks(failing, self.config.refused_grace) {
            return RoundEnd::Park { why, trouble };
        }
        let asked = retry_after.unwrap_or_default().min(self.config.retry_after_max);
        let pause = back_off(&self.config.pace, attempts, jitter()).max(asked);
        RoundEnd::Again { pause, trouble }
    }

    async fn park(&self, name: Slug, why: Parked, trouble: String) -> Result<(), Error> {
        if let Some(lease) = self.store.lease_sink(name, self.config.pace.lease).await? {
            let cursor = lease.cursor;
            let end = RoundEnd::Park { why, trouble };
            self.store.settle_sink(Settlement { lease, cursor, end }).await?;
        }
        Ok(())
    }
}

/// What to do about a sink next.
enum Next {
    Deliver(Box<SinkState>, Vec<LoggedEvent>),
    Pause(Duration),
    /// Wait until the sinks change.
    Signal,
    End,
}

/// A delivery that was not taken.
struct Failed {
    answer: Answer,
    retry_after: Option<Duration>,
    trouble: String,
}

impl Failed {
    fn secret() -> Self {
        let trouble = "cannot read its secret".to_owned();
        Self { answer: Answer::Later, retry_after: None, trouble }
    }
}

/// How long no other relay may deliver to a sink.
fn waits(state: &SinkState) -> Option<Duration> {
    let until = state.retry_at.max(state.lease_until)?;
    Some(until.since(state.now)).filter(|pause| !pause.is_zero())
}

async fn rest(pause: Duration, stopped: &mut watch::Receiver<bool>) {
    tokio::select! {
        _ = stopped.wait_for(|it| *it) => {}
        () = sleep(pause) => {}
    }
}
