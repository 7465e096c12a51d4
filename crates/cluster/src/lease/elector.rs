//! The elector: waits for the Lease, holds it, and releases it when nothing uses its term.
//!
//! ```text
//!               a whole lease without a change, or released
//!   waits, by a watch ──────────────────────────────────▶ holds: renews by compare-and-set
//!        ▲                                                    │
//!        └─ taken by another, or not renewed for a lease ─────┤
//!                                                             └─ stopped: waits for the users
//!                                                                of its term, then releases
//! ```
//!
//! **Invariants**
//! - The Lease is taken by a write that compares the state which was seen unchanged for a whole
//!   lease, by this process's clock; no time that another process wrote is compared.
//! - A Lease that is absent is waited for like one that is held: its holder may still act.
//! - A holder that did not renew for a whole lease has lost it, whatever the object says.
//! - Epochs grow, also over a cluster that is restored to an older state, as far as wall clocks do.

use std::time::Duration;

use tokio::sync::watch;
use usher_kernel::Timestamp;

use super::clock::Clock;
use super::object::{Holding, Lease, LeaseName, Read, Unwritten};
use super::term::{Beginning, Term, TermControl};
use super::times::{Times, TimesError};
use crate::answer::{Failure, Row};
use crate::client::Client;
use crate::watches::stream::Shown;

/// How an elector takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub name: LeaseName,
    /// Who holds the Lease, for people. It should be another one after each start.
    pub identity: String,
    pub times: Times,
}

/// One process that wants the Lease.
pub struct Elector {
    client: Client,
    settings: Settings,
    clock: Clock,
    terms: watch::Sender<Option<Term>>,
    seen: Option<Seen>,
    /// The highest epoch that was seen.
    epoch: u64,
}

/// The state of the Lease, and since when it is unchanged.
struct Seen {
    read: Option<Read>,
    since: Duration,
}

/// A Lease that is held.
struct Held {
    holding: Holding,
    read: Read,
    /// When the last renewal was sent that succeeded.
    renewed: Duration,
    /// What the last renewal wrote, and when it was sent.
    tried: Option<(Timestamp, Duration)>,
    is_clean: bool,
}

/// How waiting ended.
enum Waited {
    /// The Lease may be taken.
    Free(Option<Box<Lease>>),
    /// It has to be read again.
    Again,
}

/// How a renewal ended.
enum Renewal {
    Done,
    /// It is repeated after a pause.
    Failed,
    Lost(&'static str),
}

impl Elector {
    /// An elector, and where its terms are published: one while it holds the Lease, none while it
    /// does not. A term that ended without being used up says so itself.
    pub fn new(
        client: Client,
        settings: Settings,
        clock: Clock,
    ) -> Result<(Self, watch::Receiver<Option<Term>>), TimesError> {
        let (bound, request) = (client.bounds().request, settings.times.request());
        if bound > request {
            return Err(TimesError::Client { client: bound, request });
        }
        let (terms, receiver) = watch::channel(None);
        Ok((Self { client, settings, clock, terms, seen: None, epoch: 0 }, receiver))
    }

    /// Creates the Lease in a cluster that no process has acted in, so that the first one need not
    /// wait; nothing if it is there.
    pub async fn install(&self) -> Result<(), Failure> {
        match self.settings.name.create_released(&self.client, self.clock.wall()).await {
            Ok(_) | Err(Unwritten::Moved) => Ok(()),
            Err(Unwritten::Failed(failure)) => Err(failure),
        }
    }

    /// Runs until it is stopped. What uses the term should be stopped before: the Lease is renewed
    /// for as long as something does, one lease and a request more at most, and then released.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            let held = tokio::select! {
                biased;
                () = stopped(&mut stop) => return,
                held = self.acquire() => held,
            };
            self.hold(held, &mut stop).await;
        }
    }

    async fn acquire(&mut self) -> Held {
        let (mut failures, mut lost) = (0, 0);
        loop {
            match self.try_acquire().await {
                Ok(Some(held)) => return held,
                Ok(None) => {
                    // The winner is read at once, so that its epoch is known.
                    let pause =
                        if lost == 0 { Duration::ZERO } else { self.settings.times.pause() };
                    (failures, lost) = (0, lost + 1);
                    tokio::time::sleep(pause).await;
                }
                Err(failure) => {
                    let lease = &self.settings.name;
                    let trouble = failure.trouble();
                    tracing::debug!(%lease, %trouble, "failed to acquire lease");
                    tokio::time::sleep(self.pause(failures, &failure)).await;
                    failures += 1;
                }
            }
        }
    }

    /// Waits until the Lease may be taken, and takes it; none if another process was faster.
    async fn try_acquire(&mut self) -> Result<Option<Held>, Failure> {
        let Waited::Free(lease) = self.wait().await? else { return Ok(None) };
        let (sent, acquired) = (self.clock.elapsed(), self.clock.wall());
        let identity = self.settings.identity.clone();
        let epoch = self.next_epoch(acquired);
        let holding = Holding { identity, epoch, acquired };
        let duration = self.settings.times.lease();
        let name = &self.settings.name;
        let taken = name.acquire(&self.client, lease.as_deref(), (&holding, duration)).await;
        match taken {
            Ok(taken) if taken.is_held_as(&holding) => {
                let is_clean = lease.is_some_and(|it| self.is_free(&it));
                self.epoch = epoch;
                Ok(Some(Held { holding, read: taken.read(), renewed: sent, tried: None, is_clean }))
            }
            Ok(_) => Err(Failure::NoAnswer("a Lease that was not written as it was sent".into())),
            Err(Unwritten::Moved) => Ok(None),
            Err(Unwritten::Failed(failure)) => Err(failure),
        }
    }

    /// Waits until the Lease is released, or unchanged for a whole lease.
    async fn wait(&mut self) -> Result<Waited, Failure> {
        let (mut lease, mut revision) = self.settings.name.list(&self.client).await?;
        if lease.is_none() {
            // It may have been created and deleted since it was last listed.
            self.seen = None;
        }
        self.observe(lease.as_ref());
        loop {
            if self.remaining(lease.as_ref()).is_zero() {
                return Ok(Waited::Free(lease.map(Box::new)));
            }
            let mut stream = self.settings.name.watch(&self.client, revision).await?;
            loop {
                let remaining = self.remaining(lease.as_ref());
                if remaining.is_zero() {
                    return Ok(Waited::Free(lease.map(Box::new)));
                }
                let shown = tokio::select! {
                    shown = stream.next() => shown,
                    () = tokio::time::sleep(remaining) => continue,
                };
                match shown {
                    Shown::Change(changed) => lease = Some(changed),
                    Shown::Deleted(_) => lease = None,
                    Shown::Bookmark => continue,
                    Shown::End => break,
                    Shown::Expired => {
                        return Err(Failure::NoAnswer("the watch of the Lease expired".into()));
                    }
                    Shown::Broken(failure) => return Err(failure),
                }
                self.observe(lease.as_ref());
            }
            if stream.is_early() {
                // A server that restarts may be behind what was seen, and is not asked in a loop.
                tokio::time::sleep(self.settings.times.pause()).await;
                return Ok(Waited::Again);
            }
            revision = stream.revision;
        }
    }

    fn observe(&mut self, lease: Option<&Lease>) {
        let read = lease.map(Lease::read);
        self.epoch = self.epoch.max(lease.map_or(0, Lease::epoch));
        if self.seen.as_ref().is_none_or(|seen| seen.read != read) {
            self.seen = Some(Seen { read, since: self.clock.elapsed() });
        }
    }

    /// How long the Lease still has to be unchanged.
    fn remaining(&self, lease: Option<&Lease>) -> Duration {
        if lease.is_some_and(|it| self.is_free(it)) {
            return Duration::ZERO;
        }
        let written = lease.map_or(Duration::ZERO, Lease::duration);
        let whole = self.settings.times.lease().max(written);
        let since = self.seen.as_ref().map_or(Duration::MAX, |seen| seen.since);
        whole.saturating_sub(self.clock.elapsed().saturating_sub(since))
    }

    /// Whether it was released, with nothing left on its way. One of a cluster that was restored
    /// may be of before a term which still runs.
    fn is_free(&self, lease: &Lease) -> bool {
        lease.is_released() && lease.epoch() >= self.epoch
    }

    /// The epoch of the next term. Seconds keep it growing where the count in the object went back
    /// with the cluster.
    fn next_epoch(&self, now: Timestamp) -> u64 {
        let seconds = u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0);
        self.epoch.saturating_add(1).max(seconds)
    }

    /// Holds the Lease until it is lost or released.
    async fn hold(&mut self, mut held: Held, stop: &mut watch::Receiver<bool>) {
        // What was seen before this term says nothing of what happens after it.
        self.seen = None;
        let times = self.settings.times;
        let epoch = held.holding.epoch;
        let beginning = Beginning { epoch, sent: held.renewed, is_clean: held.is_clean };
        let bounds = (times.send(), times.request());
        let (term, mut control) = Term::begin(self.clock.clone(), bounds, beginning);
        tracing::info!(lease = %self.settings.name, epoch, "lease acquired");
        self.terms.send_replace(Some(term));
        let mut next = tokio::time::Instant::now() + times.renew();
        let mut stop_by = None;
        let why = loop {
            tokio::select! {
                biased;
                () = stopped(stop), if stop_by.is_none() => {
                    let longest = times.lease() + times.request();
                    stop_by = Some(tokio::time::Instant::now() + longest);
                    self.terms.send_replace(None);
                }
                () = control.settled(), if stop_by.is_some() => {
                    return self.release(&held, &control).await;
                }
                () = until(stop_by), if stop_by.is_some() => break "its term is still used",
                () = tokio::time::sleep_until(next) => {
                    let pause = match self.renew(&mut held, &control).await {
                        Renewal::Done => times.renew(),
                        Renewal::Failed => times.pause(),
                        Renewal::Lost(why) => break why,
                    };
                    next = tokio::time::Instant::now() + pause;
                }
            }
        };
        control.end();
        self.terms.send_replace(None);
        tracing::warn!(lease = %self.settings.name, epoch, why, "lease lost");
    }

    async fn renew(&self, held: &mut Held, control: &TermControl) -> Renewal {
        let sent = self.clock.elapsed();
        let left = self.settings.times.lease().saturating_sub(sent.saturating_sub(held.renewed));
        if left.is_zero() {
            return Renewal::Lost("it was not renewed in time");
        }
        let (name, at) = (&self.settings.name, self.clock.wall());
        let renewing = name.renew(&self.client, &held.read, at);
        match tokio::time::timeout(left, renewing).await {
            Ok(Ok(lease)) if lease.is_held_as(&held.holding) => {
                held.read = lease.read();
                held.renewed = sent;
                control.renew(sent);
                Renewal::Done
            }
            Ok(Err(Unwritten::Moved)) => self.reread((held, control), left).await,
            Ok(Ok(_)) => Renewal::Lost("it is held by another process"),
            Ok(Err(Unwritten::Failed(failure))) => {
                held.tried = Some((at, sent));
                let trouble = failure.trouble();
                tracing::warn!(lease = %name, %trouble, "failed to renew lease");
                Renewal::Failed
            }
            Err(_) => {
                held.tried = Some((at, sent));
                Renewal::Failed
            }
        }
    }

    /// Whether a Lease that is not as it was read is still held: the answer to a renewal may have
    /// been lost, or the cluster restored.
    async fn reread(&self, (held, control): (&mut Held, &TermControl), left: Duration) -> Renewal {
        let listing = self.settings.name.list(&self.client);
        match tokio::time::timeout(left, listing).await {
            Ok(Ok((Some(lease), _))) if lease.is_held_as(&held.holding) => {
                held.read = lease.read();
                if let Some((at, sent)) = held.tried.take()
                    && lease.renewed() == Some(at)
                {
                    held.renewed = sent;
                    control.renew(sent);
                }
                Renewal::Failed
            }
            Ok(Ok((Some(_), _))) => Renewal::Lost("it is held by another process"),
            Ok(Ok((None, _))) => Renewal::Lost("it was deleted"),
            Ok(Err(_)) | Err(_) => Renewal::Failed,
        }
    }

    /// Releases a Lease whose term nothing uses. If that fails it expires.
    async fn release(&self, held: &Held, control: &TermControl) {
        control.end();
        let (name, epoch) = (&self.settings.name, held.holding.epoch);
        let released = name.release(&self.client, &held.read, self.clock.wall()).await;
        match released {
            Ok(_) => tracing::info!(lease = %name, epoch, "lease released"),
            Err(Unwritten::Moved) => tracing::warn!(lease = %name, epoch, "lease has changed"),
            Err(Unwritten::Failed(failure)) => {
                let trouble = failure.trouble();
                tracing::warn!(lease = %name, epoch, %trouble, "failed to release lease");
            }
        }
    }

    /// How long to wait after a failure: not for long, since the Lease may be free.
    fn pause(&self, failures: u32, failure: &Failure) -> Duration {
        let times = &self.settings.times;
        let doubled = times.pause().saturating_mul(1 << failures.min(8));
        let after = if let Row::Unavailable { after } = failure.row() { after } else { None };
        doubled.max(after.unwrap_or_default()).min(times.renew())
    }
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Ends when the process stops. A dropped sender counts as a stop.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
