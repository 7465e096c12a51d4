//! The kernel's ledger on the store: one leased life, from its claim to the end of its step.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::Event;
use usher_domain::broker::life::Broker;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::tombstone::Tombstone;
use usher_kernel::schedule::Claim;
use usher_kernel::{Decision, Ledger, Lifecycle, Record, Report, Row, Stopped, Trouble, Version};

use crate::error::Error;
use crate::life::Life;
use crate::port::{ConfigWrite, Release, ResourceWrite};
use crate::store::Store;

/// The ledger of one life, for as long as its lease.
///
/// *Flow*: the record comes with the claim, so that loading costs nothing. A decision without an
/// effect finishes its step, so its commit gives the lease back as well. One with an effect does
/// not: whether the effect was done is known only afterwards.
#[derive(Debug)]
pub struct LeasedLedger<'s, S> {
    store: &'s Store,
    life: Life,
    claim: Claim,
    record: Record<S>,
    released: AtomicBool,
}

impl<'s, S: Clone> LeasedLedger<'s, S> {
    /// The ledger of a leased life.
    pub const fn new(store: &'s Store, life: Life, claim: Claim, record: Record<S>) -> Self {
        Self { store, life, claim, record, released: AtomicBool::new(false) }
    }

    /// Gives the lease back, unless the commit did.
    pub async fn finish<R: Copy>(
        &self,
        outcome: &Result<Report<R>, Stopped>,
        word: impl Fn(R) -> &'static str,
    ) -> Result<(), Error> {
        match outcome {
            Ok(_) if self.released.load(Ordering::Relaxed) => Ok(()),
            Ok(Report { reason, wake, .. }) => {
                let (life, claim) = (self.life, self.claim);
                let release = Release { life, claim, wake: *wake, reason: word(*reason) };
                self.store.release(release).await
            }
            Err(stopped) => {
                self.store.postpone(self.life, self.claim, stopped.trouble.clone()).await
            }
        }
    }

    fn release<L: Lifecycle>(
        &self,
        decision: &Decision<L>,
        reason: &'static str,
    ) -> Option<Release> {
        let finished = decision.effect.is_none();
        finished.then_some(Release {
            life: self.life,
            claim: self.claim,
            wake: decision.wake,
            reason,
        })
    }

    fn committed(&self, written: Result<(), Error>, rode: bool) -> Result<(), Trouble> {
        written.map_err(|error| error.trouble())?;
        self.released.store(rode, Ordering::Relaxed);
        Ok(())
    }
}

impl LeasedLedger<'_, Resource> {
    async fn write(
        &self,
        version: Version,
        (next, rows): (&Resource, &[Row]),
        event: Option<Event>,
        release: Option<Release>,
    ) -> Result<(), Trouble> {
        let rode = release.is_some();
        let lease = (!rode).then_some((self.life, self.claim));
        let write = ResourceWrite {
            version,
            before: self.record.state.clone(),
            next: next.clone(),
            rows: rows.to_vec(),
            event,
            lease,
            release,
        };
        self.committed(self.store.commit(write).await, rode)
    }
}

impl Ledger<Broker> for LeasedLedger<'_, Resource> {
    async fn load(&self) -> Result<Record<Resource>, Trouble> {
        Ok(self.record.clone())
    }

    async fn commit(&self, version: Version, decision: &Decision<Broker>) -> Result<(), Trouble> {
        let release = self.release(decision, decision.reason.as_str());
        let (next, rows) = (&decision.next, decision.rows.as_slice());
        self.write(version, (next, rows), decision.event.clone(), release).await
    }
}

impl Ledger<Tombstone> for LeasedLedger<'_, Resource> {
    async fn load(&self) -> Result<Record<Resource>, Trouble> {
        Ok(self.record.clone())
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<Tombstone>,
    ) -> Result<(), Trouble> {
        let release = self.release(decision, decision.reason.as_str());
        let event: Option<Event> = decision.event.map(|never: Infallible| match never {});
        self.write(version, (&decision.next, decision.rows.as_slice()), event, release).await
    }
}

impl Ledger<provider_config::Life> for LeasedLedger<'_, ProviderConfig> {
    async fn load(&self) -> Result<Record<ProviderConfig>, Trouble> {
        Ok(self.record.clone())
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<provider_config::Life>,
    ) -> Result<(), Trouble> {
        let release = self.release(decision, decision.reason.as_str());
        let rode = release.is_some();
        let lease = (!rode).then_some((self.life, self.claim));
        let write = ConfigWrite {
            version,
            before: self.record.state.clone(),
            next: decision.next.clone(),
            rows: decision.rows.clone(),
            lease,
            release,
        };
        self.committed(self.store.commit_config(write).await, rode)
    }
}
