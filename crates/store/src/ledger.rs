//! The kernel's ledger on the store: one leased life, from its claim to the end of its step.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::Event;
use usher_domain::broker::life::Broker;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::tombstone::Tombstone;
use usher_kernel::schedule::Claim;
use usher_kernel::{
    Decision, Ledger, Lifecycle, Record, Report, Row, Stopped, Trouble, Version, Wake,
};

use crate::error::Error;
use crate::life::Life;
use crate::port::{ConfigWrite, Release, ResourceWrite, Stay};
use crate::store::Store;
use crate::turn::Turn;

/// The ledger of one step of a leased life.
///
/// *Flow*: the record comes with the claim, so that loading costs nothing. A decision without an
/// effect finishes its step, so its commit gives the lease back as well. One with an effect does
/// not: whether the effect was done is known only afterwards. A life that wants to look again at
/// once, or was woken meanwhile, keeps its lease for the next step while there is time. One that
/// waits for somebody lingers for a moment before it gives its lease back: what comes at once, as
/// the answer of a node does, then needs no lease of its own.
pub struct LeasedLedger<'s, S> {
    store: &'s Store,
    life: Life,
    claim: Claim,
    record: Record<S>,
    in_time: &'s InTime,
    step: Turn<'s>,
    /// The wake-ups that the next look sees.
    seen: AtomicU64,
    written: OnceLock<Record<S>>,
    /// How the commit ended the step, if it did.
    ended: OnceLock<Lease>,
}

/// Whether there is time for another step under the same lease, by the clock of whoever drives.
pub type InTime = dyn Fn() -> bool + Sync;

/// What a commit says of the lease it is made under.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Stays(Stay),
    Ends(Release),
}

impl Ending {
    /// How it ends the step, if it does.
    const fn lease(self) -> Option<Lease> {
        match self {
            Self::Stays(Stay { finished: true, .. }) => Some(Lease::Kept),
            Self::Stays(Stay { finished: false, .. }) => None,
            Self::Ends(_) => Some(Lease::GivenBack),
        }
    }

    const fn parts(self) -> (Option<Stay>, Option<Release>) {
        match self {
            Self::Stays(stay) => (Some(stay), None),
            Self::Ends(release) => (None, Some(release)),
        }
    }
}

/// What becomes of a lease when its step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    Kept,
    GivenBack,
}

impl<'s, S: Clone> LeasedLedger<'s, S> {
    /// The ledger of a leased life, which keeps its lease while it is in time.
    pub fn new(
        store: &'s Store,
        (life, claim): (Life, Claim),
        record: Record<S>,
        in_time: &'s InTime,
    ) -> Self {
        let step = store.turns().begin(life, claim);
        let (written, ended) = (OnceLock::new(), OnceLock::new());
        let seen = AtomicU64::new(claim.wake_seq);
        Self { store, life, claim, record, in_time, step, seen, written, ended }
    }

    /// Gives the lease back, unless the commit did or the life goes on; with which record, then.
    pub async fn finish<R: Copy>(
        &self,
        outcome: &Result<Report<R>, Stopped>,
        word: impl Fn(R) -> &'static str,
    ) -> Result<Option<Record<S>>, Error> {
        let (life, claim) = (self.life, self.looked());
        let Report { reason, wake, .. } = match outcome {
            Ok(report) => report,
            Err(stopped) => {
                if self.step.end() {
                    self.store.write_wakes(vec![life.id()]).await?;
                }
                let own = self.store.postpone(life, claim, stopped.trouble.clone()).await?;
                self.hand_over(own).await?;
                return Ok(None);
            }
        };
        let lease = if let Some(ended) = self.ended.get() {
            *ended
        } else {
            self.linger(*wake).await;
            let lease = self.end(*wake).await?;
            if lease == Lease::GivenBack {
                let release = Release { life, claim, wake: *wake, reason: word(*reason) };
                let own = self.store.release(release).await?;
                self.hand_over(own).await?;
            }
            lease
        };
        let record = self.written.get().unwrap_or(&self.record);
        Ok((lease == Lease::Kept).then(|| record.clone()))
    }

    /// The lease with the wake-ups that the last look saw.
    fn looked(&self) -> Claim {
        Claim { wake_seq: self.step.looked(), ..self.claim }
    }

    /// The lease of the next step, if the life goes on: what woke it is seen by that step's look.
    pub fn claim(&self) -> Claim {
        Claim { wake_seq: self.seen.load(Ordering::Relaxed), ..self.claim }
    }

    /// Whoever overtook this driver may have looked before it did, and rest on that.
    async fn hand_over(&self, own: bool) -> Result<(), Error> {
        if !own {
            self.store.write_wakes(vec![self.life.id()]).await?;
        }
        Ok(())
    }

    /// Waits a moment under the lease for what the life waits for, unless others wait for its seat.
    async fn linger(&self, wake: Wake) {
        if matches!(wake, Wake::At(_)) && (self.in_time)() && !self.store.is_crowded() {
            self.step.linger(self.store.linger()).await;
        }
    }

    /// Ends the step, before its lease is given back if it is.
    async fn end(&self, wake: Wake) -> Result<Lease, Error> {
        let in_time = (self.in_time)();
        self.seen.store(self.step.written(), Ordering::Relaxed);
        if in_time && wake == Wake::Now {
            return Ok(Lease::Kept);
        }
        if !self.step.end() {
            return Ok(Lease::GivenBack);
        }
        if in_time && wake != Wake::Never {
            return Ok(Lease::Kept);
        }
        self.store.write_wakes(vec![self.life.id()]).await?;
        Ok(Lease::GivenBack)
    }

    /// What a commit says of the lease.
    async fn turn<L: Lifecycle>(
        &self,
        decision: &Decision<L>,
        reason: &'static str,
    ) -> Result<Ending, Trouble> {
        let (life, claim, wake) = (self.life, self.looked(), decision.wake);
        let finished = decision.effect.is_none();
        let stays = Ending::Stays(Stay { life, claim, reason, finished });
        if !finished {
            return Ok(stays);
        }
        let lease = self.end(wake).await.map_err(|error| error.trouble())?;
        Ok(match lease {
            Lease::Kept => stays,
            Lease::GivenBack => Ending::Ends(Release { life, claim, wake, reason }),
        })
    }

    /// The record after a commit, and how that ended the step.
    fn committed(&self, (next, rows): (&S, &[Row]), ending: Ending) {
        let Record { version, book, .. } = &self.record;
        let next = Record { version: version.next(), state: next.clone(), book: book.with(rows) };
        // A step commits once.
        let _ = self.written.set(next);
        if let Some(lease) = ending.lease() {
            let _ = self.ended.set(lease);
        }
    }
}

impl LeasedLedger<'_, Resource> {
    async fn write(
        &self,
        version: Version,
        (next, rows): (&Resource, &[Row]),
        event: Option<Event>,
        ending: Ending,
    ) -> Result<(), Trouble> {
        let (lease, release) = ending.parts();
        let write = ResourceWrite {
            version,
            before: self.record.state.clone(),
            next: next.clone(),
            rows: rows.to_vec(),
            event,
            lease,
            release,
        };
        let book = &self.record.book;
        self.store.commit_with(write, book).await.map_err(|error| error.trouble())?;
        self.committed((next, rows), ending);
        Ok(())
    }
}

impl Ledger<Broker> for LeasedLedger<'_, Resource> {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        self.step.look();
        Ok(Some(self.record.clone()))
    }

    async fn commit(&self, version: Version, decision: &Decision<Broker>) -> Result<(), Trouble> {
        let ending = self.turn(decision, decision.reason.as_str()).await?;
        let (next, rows) = (&decision.next, decision.rows.as_slice());
        self.write(version, (next, rows), decision.event.clone(), ending).await
    }
}

impl Ledger<Tombstone> for LeasedLedger<'_, Resource> {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        self.step.look();
        Ok(Some(self.record.clone()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<Tombstone>,
    ) -> Result<(), Trouble> {
        let ending = self.turn(decision, decision.reason.as_str()).await?;
        let event: Option<Event> = decision.event.map(|never: Infallible| match never {});
        self.write(version, (&decision.next, decision.rows.as_slice()), event, ending).await
    }
}

impl Ledger<provider_config::Life> for LeasedLedger<'_, ProviderConfig> {
    async fn load(&self) -> Result<Option<Record<ProviderConfig>>, Trouble> {
        self.step.look();
        Ok(Some(self.record.clone()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<provider_config::Life>,
    ) -> Result<(), Trouble> {
        let ending = self.turn(decision, decision.reason.as_str()).await?;
        let (lease, release) = ending.parts();
        let write = ConfigWrite {
            version,
            before: self.record.state.clone(),
            next: decision.next.clone(),
            rows: decision.rows.clone(),
            lease,
            release,
        };
        self.store.commit_config(write).await.map_err(|error| error.trouble())?;
        self.committed((&decision.next, decision.rows.as_slice()), ending);
        Ok(())
    }
}
