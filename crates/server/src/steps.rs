//! One reconcile step of each kind of item, between the store and the world of its record.

use std::fmt::Display;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::observe::Observed;
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::reason::Reason;
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::tombstone::{self, Tombstone};
use usher_domain::object::authority::BoxFuture;
use usher_kernel::schedule::Claim;
use usher_kernel::{
    Condition, Decision, Ledger, Lifecycle, Record, Report, Stopped, Timestamp, Trouble, Version,
    World, step,
};
use usher_store::{Error, Held, InTime, Leased, LeasedLedger, Store, WorkItem};

use super::tally::{Count, Tally};
use super::worker::Steps;
use super::worlds::Worlds;
use usher_failpoint::Failpoint;

/// The reconcilers with their settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconcilers {
    /// Resources.
    pub broker: Broker,
    /// Tombstones of deleted resources.
    pub tombstone: Tombstone,
    /// ProviderConfigs.
    pub config: provider_config::ProviderConfigReconciler,
}

/// Reconciles the records of a store, each in its world.
pub struct WorldSteps {
    pub store: Arc<Store>,
    pub worlds: Arc<Worlds>,
    pub reconcilers: Reconcilers,
    pub tally: Arc<Tally>,
}

#[async_trait]
impl Steps for WorldSteps {
    async fn step(&self, leased: Leased, keeps_until: Instant) -> Result<Option<Leased>, Error> {
        let Leased { item, claim, record, now } = leased;
        let in_time = move || Instant::now() < keeps_until;
        let lease: Lease<'_> = (item, claim, &in_time);
        let kept = match (item, record) {
            (WorkItem::Resource(_), Held::Resource(record)) => {
                let ledger = self.ledger(lease, *record);
                let done = step(&self.reconcilers.broker, &self.seen(), &ledger, now).await;
                // A deleted record has no queue entry.
                let Some(outcome) = done.transpose() else { return Ok(None) };
                self.log_outcome(item, &outcome);
                let kept = ledger.finish(&outcome, Reason::as_str).await?;
                kept.map(held)
            }
            (WorkItem::Tombstone(_), Held::Resource(record)) => {
                let kept = self.tombstone(lease, *record, now).await?;
                kept.map(held)
            }
            (WorkItem::ProviderConfig(_), Held::ProviderConfig(record)) => {
                let ledger = self.ledger(lease, record);
                let done = step(&self.reconcilers.config, &self.seen(), &ledger, now).await;
                let Some(outcome) = done.transpose() else { return Ok(None) };
                self.log_outcome(item, &outcome);
                let kept = ledger.finish(&outcome, provider_config::Reason::as_str).await?;
                kept.map(Held::ProviderConfig)
            }
            (WorkItem::Resource(_) | WorkItem::Tombstone(_), Held::ProviderConfig(_))
            | (WorkItem::ProviderConfig(_), Held::Resource(_)) => {
                let what = format!("the record of {item}");
                self.store.postpone(item, claim, Trouble::Corrupt { what }, None).await?;
                None
            }
        };
        Ok(kept.map(|record| Leased { item, claim, record, now }))
    }
}

/// The lease of an item, and whether there is time to keep it.
type Lease<'a> = (WorkItem, Claim, &'a InTime);

fn held(record: Record<Resource>) -> Held {
    Held::Resource(Box::new(record))
}

impl WorldSteps {
    /// Reconciles a tombstone; it expires after its retention if nothing reappeared.
    async fn tombstone(
        &self,
        (item, claim, in_time): Lease<'_>,
        record: Record<Resource>,
        now: Timestamp,
    ) -> Result<Option<Record<Resource>>, Error> {
        let (id, over) = (record.state.id(), self.reconcilers.tombstone.is_over(&record, now));
        let ledger = self.ledger((item, claim, in_time), record);
        let done = step(&self.reconcilers.tombstone, &self.seen(), &ledger, now).await;
        let Some(outcome) = done.transpose() else { return Ok(None) };
        self.log_outcome(item, &outcome);
        let at_rest = matches!(
            outcome,
            Ok(Report { reason: tombstone::Reason::NothingReturned, committed: false, .. })
        );
        if at_rest
            && over
            && self.store.expire_tombstone(id, claim, self.reconcilers.tombstone.keep).await?
        {
            return Ok(None);
        }
        ledger.finish(&outcome, tombstone::Reason::as_str).await
    }

    fn ledger<'a, S: Clone>(
        &'a self,
        (item, claim, in_time): Lease<'a>,
        record: Record<S>,
    ) -> Written<'a, S> {
        let ledger = LeasedLedger::new(&self.store, (item, claim), record, in_time);
        Written { ledger, tally: &self.tally }
    }

    fn seen(&self) -> Seen<'_> {
        Seen { worlds: &self.worlds, tally: &self.tally }
    }

    fn log_outcome<R: Copy + Display>(&self, item: WorkItem, outcome: &Result<Report<R>, Stopped>) {
        match outcome {
            Ok(Report { reason, committed, .. }) => {
                self.tally.count(Count::Steps);
                tracing::debug!(%item, %reason, committed, "step");
            }
            Err(Stopped { stage, trouble: trouble @ Trouble::Conflict }) => {
                tracing::debug!(%item, %stage, %trouble, "step");
            }
            Err(Stopped { stage, trouble }) => {
                self.tally.count(Count::Troubles);
                tracing::warn!(%item, %stage, %trouble, "step failed");
            }
        }
    }
}

/// The worlds, with counters and failpoints.
struct Seen<'a> {
    worlds: &'a Worlds,
    tally: &'a Tally,
}

impl Seen<'_> {
    async fn observe_resource(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.tally.count(Count::Observations);
        self.worlds.get(&record.state.pinned().world)?.observe(record).await
    }

    async fn apply_resource(
        &self,
        record: &Record<Resource>,
        effect: &Effect,
    ) -> Result<(), Trouble> {
        let world = self.worlds.get(&record.state.pinned().world)?;
        self.counted(world.apply(record, effect)).await
    }

    async fn counted(&self, effect: BoxFuture<'_, Result<(), Trouble>>) -> Result<(), Trouble> {
        Failpoint::BeforeEffect.pass();
        self.tally.count(Count::Effects);
        let applied = effect.await;
        Failpoint::AfterEffect.pass();
        applied
    }
}

impl World<Broker> for Seen<'_> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.observe_resource(record).await
    }

    async fn apply(&self, record: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.apply_resource(record, effect).await
    }
}

impl World<Tombstone> for Seen<'_> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.observe_resource(record).await
    }

    async fn apply(&self, record: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.apply_resource(record, effect).await
    }
}

impl World<provider_config::ProviderConfigReconciler> for Seen<'_> {
    async fn observe(
        &self,
        record: &Record<ProviderConfig>,
    ) -> Result<provider_config::Observed, Trouble> {
        self.tally.count(Count::Observations);
        self.worlds.get(&record.state.world)?.observe_config(record).await
    }

    async fn apply(&self, record: &Record<ProviderConfig>, verb: &Verb) -> Result<(), Trouble> {
        let world = self.worlds.get(&record.state.world)?;
        self.counted(world.apply_config(record, verb)).await
    }
}

/// The ledger, with counters and failpoints.
struct Written<'a, S> {
    ledger: LeasedLedger<'a, S>,
    tally: &'a Tally,
}

impl<S: Clone> Written<'_, S> {
    async fn finish<R: Copy>(
        &self,
        outcome: &Result<Report<R>, Stopped>,
        word: impl Fn(R) -> &'static str,
    ) -> Result<Option<Record<S>>, Error> {
        Failpoint::BeforeRelease.pass();
        self.ledger.finish(outcome, word).await
    }
}

impl<'a, L: Lifecycle> Ledger<L> for Written<'a, L::State>
where
    LeasedLedger<'a, L::State>: Ledger<L>,
{
    async fn load(&self) -> Result<Option<Record<L::State>>, Trouble> {
        self.ledger.load().await
    }

    async fn report(&self, condition: &Condition<L::Reason>) -> Result<(), Trouble> {
        self.ledger.report(condition).await
    }

    async fn commit(&self, version: Version, decision: &Decision<L>) -> Result<(), Trouble> {
        Failpoint::BeforeCommit.pass();
        let written = self.ledger.commit(version, decision).await;
        self.tally.count(Count::Commits);
        Failpoint::AfterCommit.pass();
        written
    }
}
