//! The kernel's ledger on the store: one leased item, from its claim to the end of its step.

use std::convert::Infallible;
use std::sync::OnceLock;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::Event;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::reason::Reason;
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::tombstone::{self, Tombstone};
use usher_kernel::schedule::Claim;
use usher_kernel::{
    Condition, Decision, Ledger, Lifecycle, Record, Report, Row, Stopped, Trouble, Version, Wake,
};

use crate::error::Error;
use crate::port::WorkItem;
use crate::port::{ConfigWrite, Release, ResourceWrite, Stay};
use crate::store::Store;

/// The ledger of one step of a leased item.
///
/// *Flow*: the record comes with the claim, so that loading costs nothing. A decision without an
/// effect finishes its step, so its commit gives the lease back as well. One with an effect does
/// not: whether the effect was done is known only afterwards. An item that is requeued at once
/// keeps its lease for the next step while there is time. A wake-up during a step is written like
/// every other, and makes the item due when its lease is released.
pub struct LeasedLedger<'s, S> {
    store: &'s Store,
    item: WorkItem,
    claim: Claim,
    record: Record<S>,
    in_time: &'s InTime,
    written: OnceLock<Record<S>>,
    /// What the commit did with the lease, if it finished the step.
    ended: OnceLock<Lease>,
    /// The reason of the decision, for a step whose effect fails.
    reason: OnceLock<&'static str>,
}

/// Whether there is time for another step under the same lease, by the clock of the worker.
pub type InTime = dyn Fn() -> bool + Sync;

/// What a commit does with the lease it is made under.
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
    /// The ledger of a leased item, which keeps its lease while it is in time.
    pub fn new(
        store: &'s Store,
        (item, claim): (WorkItem, Claim),
        record: Record<S>,
        in_time: &'s InTime,
    ) -> Self {
        let (written, ended, reason) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { store, item, claim, record, in_time, written, ended, reason }
    }

    /// Releases the lease, unless the commit did or another step follows; with which record, then.
    pub async fn finish<R: Copy>(
        &self,
        outcome: &Result<Report<R>, Stopped>,
        word: impl Fn(R) -> &'static str,
    ) -> Result<Option<Record<S>>, Error> {
        let (item, claim) = (self.item, self.claim);
        let Report { reason, wake, .. } = match outcome {
            Ok(report) => report,
            Err(stopped) => {
                let trouble = stopped.trouble.clone();
                let reason = self.reason.get().copied();
                let own = self.store.postpone(item, claim, trouble, reason).await?;
                self.wake_if_overtaken(own).await?;
                return Ok(None);
            }
        };
        let lease = self.ended.get().copied().unwrap_or_else(|| self.next_lease(*wake));
        if lease == Lease::Kept {
            return Ok(Some(self.written.get().unwrap_or(&self.record).clone()));
        }
        if self.ended.get().is_none() {
            let release = Release { item, claim, wake: *wake, reason: word(*reason) };
            let own = self.store.release(release).await?;
            self.wake_if_overtaken(own).await?;
        }
        Ok(None)
    }

    /// Keeps the reason of the decision until the lease is given back: one write for both.
    fn keep(&self, reason: Option<&'static str>) {
        if let Some(reason) = reason {
            let _ = self.reason.set(reason);
        }
    }

    /// A newer lease holder may have gone idle on a snapshot that is older than this step's.
    async fn wake_if_overtaken(&self, own: bool) -> Result<(), Error> {
        if !own {
            self.store.wake_labels(vec![self.item.id()]).await?;
        }
        Ok(())
    }

    /// What becomes of the lease after a finished step.
    fn next_lease(&self, wake: Wake) -> Lease {
        if wake == Wake::Now && (self.in_time)() { Lease::Kept } else { Lease::GivenBack }
    }

    /// What a commit does with the lease.
    fn ending<L: Lifecycle>(&self, decision: &Decision<L>, reason: &'static str) -> Ending {
        let (item, claim, wake) = (self.item, self.claim, decision.wake);
        let finished = decision.effect.is_none();
        if finished && self.next_lease(wake) == Lease::GivenBack {
            return Ending::Ends(Release { item, claim, wake, reason });
        }
        Ending::Stays(Stay { item, claim, reason, finished })
    }

    /// The record after a commit, and how that ended the step.
    fn committed(&self, (next, rows): (&S, &[Row]), ending: Ending) {
        let Record { version, name_ledger, .. } = &self.record;
        let next = Record {
            version: version.next(),
            state: next.clone(),
            name_ledger: name_ledger.with(rows),
        };
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
        self.store.commit(write).await.map_err(|error| error.trouble())?;
        self.committed((next, rows), ending);
        Ok(())
    }
}

impl Ledger<Broker> for LeasedLedger<'_, Resource> {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ok(Some(self.record.clone()))
    }

    async fn commit(&self, version: Version, decision: &Decision<Broker>) -> Result<(), Trouble> {
        let ending = self.ending(decision, decision.reason.as_str());
        let (next, rows) = (&decision.next, decision.rows.as_slice());
        self.write(version, (next, rows), decision.event.clone(), ending).await
    }

    async fn report(&self, condition: &Condition<Reason>) -> Result<(), Trouble> {
        self.keep(condition.reason.map(Reason::as_str));
        Ok(())
    }
}

impl Ledger<Tombstone> for LeasedLedger<'_, Resource> {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ok(Some(self.record.clone()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<Tombstone>,
    ) -> Result<(), Trouble> {
        let ending = self.ending(decision, decision.reason.as_str());
        let event: Option<Event> = decision.event.map(|never: Infallible| match never {});
        self.write(version, (&decision.next, decision.rows.as_slice()), event, ending).await
    }

    async fn report(&self, condition: &Condition<tombstone::Reason>) -> Result<(), Trouble> {
        self.keep(condition.reason.map(tombstone::Reason::as_str));
        Ok(())
    }
}

impl Ledger<provider_config::ProviderConfigReconciler> for LeasedLedger<'_, ProviderConfig> {
    async fn load(&self) -> Result<Option<Record<ProviderConfig>>, Trouble> {
        Ok(Some(self.record.clone()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<provider_config::ProviderConfigReconciler>,
    ) -> Result<(), Trouble> {
        let ending = self.ending(decision, decision.reason.as_str());
        let (lease, release) = ending.parts();
        let write = ConfigWrite {
            version,
            before: self.record.state.clone(),
            next: decision.next.clone(),
            rows: decision.rows.clone(),
            event: None,
            lease,
            release,
        };
        self.store.commit_config(write).await.map_err(|error| error.trouble())?;
        self.committed((&decision.next, decision.rows.as_slice()), ending);
        Ok(())
    }

    async fn report(&self, condition: &Condition<provider_config::Reason>) -> Result<(), Trouble> {
        self.keep(condition.reason.map(provider_config::Reason::as_str));
        Ok(())
    }
}
