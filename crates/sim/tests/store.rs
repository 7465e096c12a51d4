//! The store of the simulation keeps the promises of every store, and each promise can be broken.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use usher_domain::broker::accept::{Accepted, Provision};
use usher_domain::broker::aggregate::{Fields, Resource};
use usher_domain::broker::ledger::{
    Batch, Command, ConfigWrite, Release, RememberedKey, ResourceWrite, Snapshot, Stay, WorkItem,
};
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_domain::object::idempotency::{Key, Scope};
use usher_domain::peers::Peer;
use usher_domain::tokens::{Outcome, Refusal, Request, Token};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, Record, Timestamp, Trouble, Wake};
use usher_sim::broker::memory::Memory;
use usher_sim::contract::port::{No, Port, ReadEvents, TestIds};
use usher_sim::contract::store::PROMISES;

/// A promise broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// Names are not recorded with an acceptance.
    ForgetNames,
    /// A declaration whose views have moved is answered as accepted.
    AcceptAnything,
    /// Users of a ProviderConfig are not counted.
    NeverCount,
    /// Idempotency keys are not remembered.
    ForgetKeys,
    /// The present is that of another clock.
    OtherClock,
    /// A lease is given while another one runs.
    DoubleLease,
    /// A claim takes whatever is due.
    TakeAll,
    /// Attempts are not counted at the claim.
    CountLate,
    /// Fences are not compared.
    NoFence,
    /// Events are not written.
    TellNothing,
    /// Versions are not compared.
    SkipVersion,
    /// A commit does not give the lease back.
    KeepLease,
    /// A wake-up during a step is lost.
    LoseWakeUp,
    /// A rest without a timer is due at once.
    NeverRest,
    /// Trouble never parks.
    NeverPark,
    /// A row that breaks its rules is handed out.
    ReadAnything,
    /// Every event is returned twice.
    TellTwice,
    /// Nothing is waited for.
    SkipInFlightGrace,
    /// A resource being torn down is answered a token.
    IssueToLeaving,
    /// A refused agent enrols.
    EnrolAnybody,
    /// There are no tombstones.
    DropTombstone,
    /// What waits for a ProviderConfig is not woken.
    WakeNoUsers,
    /// A peer never moves.
    KeepPeers,
    /// What was given up stays so.
    NeverReap,
    /// A reader misses the first row of its page.
    SkipEvents,
    /// Labels wake deleted resources.
    WakeTheDead,
    /// Everybody is found.
    FindAnybody,
}

const HOWS: [How; 27] = [
    How::ForgetNames,
    How::AcceptAnything,
    How::NeverCount,
    How::ForgetKeys,
    How::OtherClock,
    How::DoubleLease,
    How::TakeAll,
    How::CountLate,
    How::NoFence,
    How::TellNothing,
    How::SkipVersion,
    How::KeepLease,
    How::LoseWakeUp,
    How::NeverRest,
    How::NeverPark,
    How::ReadAnything,
    How::TellTwice,
    How::SkipInFlightGrace,
    How::IssueToLeaving,
    How::EnrolAnybody,
    How::DropTombstone,
    How::WakeNoUsers,
    How::KeepPeers,
    How::NeverReap,
    How::SkipEvents,
    How::WakeTheDead,
    How::FindAnybody,
];

/// The store of the simulation with one promise broken.
struct Broken {
    inner: Memory,
    how: How,
    leased: Vec<(WorkItem, Claim)>,
}

impl Broken {
    fn new(how: How) -> Self {
        Self { inner: Memory::default(), how, leased: vec![] }
    }

    fn is(&self, how: How) -> bool {
        self.how == how
    }

    fn bent_claim(&mut self, work_item: WorkItem, mut claim: Claim) -> Claim {
        if let Some(entry) = self.inner.entry(work_item).unwrap() {
            if self.is(How::NoFence) {
                claim.fence = entry.fence;
            }
            if self.is(How::LoseWakeUp) {
                claim.wake_seq = entry.wake_seq;
            }
        }
        claim
    }

    fn bent_release(&mut self, release: Release) -> Release {
        let claim = self.bent_claim(release.item, release.claim);
        let rests = release.wake == Wake::OnChange && self.is(How::NeverRest);
        Release { claim, wake: if rests { Wake::Now } else { release.wake }, ..release }
    }
}

impl Port for Broken {
    fn ids(&self) -> TestIds {
        self.inner.ids()
    }

    fn now(&mut self) -> Timestamp {
        self.inner.now()
    }

    fn pass(&mut self, span: Duration) {
        self.inner.pass(span);
    }

    fn spoil(&mut self, resource: ResourceId) {
        if !self.is(How::ReadAnything) {
            self.inner.spoil(resource);
        }
    }

    fn snapshot(&mut self, command: &Provision, key: Option<(Scope, Key)>) -> Result<Snapshot, No> {
        self.inner.snapshot(command, key)
    }

    fn accept(&mut self, mut accepted: Accepted, key: Option<RememberedKey>) -> Result<(), No> {
        if self.is(How::ForgetNames) {
            accepted.rows.clear();
        }
        let done = self.inner.accept(accepted, key.filter(|_| !self.is(How::ForgetKeys)));
        if self.is(How::AcceptAnything) { Ok(()) } else { done }
    }

    fn claim_due(&mut self, count: u32) -> Result<Batch, No> {
        if self.is(How::DoubleLease) {
            for (work_item, claim) in std::mem::take(&mut self.leased) {
                self.inner.release(Release {
                    item: work_item,
                    claim,
                    wake: Wake::Now,
                    reason: "",
                })?;
            }
        }
        let mut batch = self.inner.claim_due(if self.is(How::TakeAll) { 64 } else { count })?;
        for it in &mut batch.leased {
            self.leased.push((it.item, it.claim));
            if self.how == How::OtherClock {
                it.now = Timestamp::from_millis(1);
            }
            if self.how == How::CountLate {
                it.claim.attempt = 1;
            }
        }
        Ok(batch)
    }

    fn commit(&mut self, mut write: ResourceWrite) -> Result<(), No> {
        if self.is(How::SkipVersion) {
            write.version = self.inner.resource(write.next.id())?.version;
        }
        let kept = !self.is(How::KeepLease);
        write.release = write.release.filter(|_| kept).map(|it| self.bent_release(it));
        let bent = |it: Stay| Stay { claim: self.bent_claim(it.item, it.claim), ..it };
        write.lease = write.lease.map(bent);
        self.inner.commit(write)
    }

    fn commit_config(&mut self, mut write: ConfigWrite) -> Result<(), No> {
        if self.is(How::WakeNoUsers) {
            write.before = write.next.clone();
        }
        self.inner.commit_config(write)
    }

    fn release(&mut self, release: Release) -> Result<(), No> {
        let release = self.bent_release(release);
        self.inner.release(release)
    }

    fn postpone(&mut self, work_item: WorkItem, claim: Claim, trouble: &Trouble) -> Result<(), No> {
        let claim = self.bent_claim(work_item, claim);
        let trouble = if self.is(How::NeverPark) { &Trouble::Conflict } else { trouble };
        self.inner.postpone(work_item, claim, trouble)
    }

    fn wake(&mut self, work_item: WorkItem) -> Result<bool, No> {
        let found = self.inner.wake(work_item)?;
        Ok(found || self.is(How::FindAnybody))
    }

    fn wake_label(&mut self, resource: ResourceId) -> Result<bool, No> {
        if self.is(How::WakeTheDead) {
            return self.inner.wake(WorkItem::Resource(resource));
        }
        self.inner.wake_label(resource)
    }

    fn wake_all(&mut self) -> Result<(), No> {
        self.inner.wake_all()
    }

    fn order(&mut self, resource: ResourceId, command: Command) -> Result<Resource, No> {
        if matches!(command, Command::Reap { .. }) && self.is(How::NeverReap) {
            return self.inner.resource(resource).map(|it| it.state);
        }
        let next = self.inner.order(resource, command)?;
        if self.is(How::SkipInFlightGrace) {
            let fields = Fields { grace_until: None, ..next.fields().clone() };
            return Ok(Resource::hydrate(fields).unwrap());
        }
        Ok(next)
    }

    fn issue(&mut self, resource: ResourceId, generation: Generation) -> Result<(), No> {
        let done = self.inner.issue(resource, generation);
        if self.is(How::IssueToLeaving) { Ok(()) } else { done }
    }

    fn redeem(&mut self, request: &Request) -> Result<Outcome, No> {
        let outcome = self.inner.redeem(request)?;
        let refused = matches!(
            outcome,
            Outcome::Refused(Refusal::Consumed | Refusal::Leaving | Refusal::Revoked)
        );
        let bends = refused && self.is(How::EnrolAnybody);
        Ok(if bends { Outcome::Replayed(request.peer) } else { outcome })
    }

    fn move_peer(&mut self, before: &Peer, after: &Peer) -> Result<(), No> {
        if self.is(How::KeepPeers) { Ok(()) } else { self.inner.move_peer(before, after) }
    }

    fn resource(&mut self, id: ResourceId) -> Result<Record<Resource>, No> {
        self.inner.resource(id)
    }

    fn config(&mut self, id: ProviderConfigId) -> Result<Record<ProviderConfig>, No> {
        let mut record = self.inner.config(id)?;
        if self.is(How::NeverCount) {
            record.state.users = 1;
        }
        Ok(record)
    }

    fn entry(&mut self, work_item: WorkItem) -> Result<Option<Entry>, No> {
        let dropped = self.is(How::DropTombstone) && matches!(work_item, WorkItem::Tombstone(_));
        Ok(self.inner.entry(work_item)?.filter(|_| !dropped))
    }

    fn tokens(&mut self, resource: ResourceId) -> Result<Vec<Token>, No> {
        self.inner.tokens(resource)
    }

    fn peers(&mut self, resource: ResourceId) -> Result<Vec<Peer>, No> {
        self.inner.peers(resource)
    }

    fn events(&mut self, after: Option<&str>, count: u32) -> Result<Vec<ReadEvents>, No> {
        let mut events = self.inner.events(after, count)?;
        if self.is(How::TellNothing) {
            events.clear();
        }
        if self.is(How::SkipEvents) && after.is_some() && events.len() > 1 {
            events.remove(0);
        }
        if self.is(How::TellTwice) {
            events = events.into_iter().flat_map(|it| [it.clone(), it]).collect();
        }
        Ok(events)
    }
}

// Requirement: W-5, S-6, Q-26
#[test]
fn the_store_of_the_simulation_keeps_every_promise() {
    for (name, promise) in PROMISES {
        let kept = catch_unwind(|| promise(&mut Memory::default()));
        assert!(kept.is_ok(), "{name}");
    }
}

/// The promises that a broken store does not keep.
fn broken_by(how: How) -> Vec<&'static str> {
    let broken = |promise: fn(&mut dyn Port)| {
        let mut store = Broken::new(how);
        catch_unwind(AssertUnwindSafe(|| promise(&mut store))).is_err()
    };
    PROMISES.iter().filter(|it| broken(it.1)).map(|it| it.0).collect()
}

// Requirement: S-6, Q-26
#[test]
fn every_promise_can_be_broken_and_every_breakage_is_noticed() {
    std::panic::set_hook(Box::new(|_| {}));
    let broken: Vec<(How, Vec<&str>)> = HOWS.map(|how| (how, broken_by(how))).into();
    let _ = std::panic::take_hook();
    for (how, promises) in &broken {
        assert!(!promises.is_empty(), "{how:?} is not noticed");
    }
    for (name, _) in PROMISES {
        let by: Vec<How> = broken.iter().filter(|it| it.1.contains(name)).map(|it| it.0).collect();
        assert!(!by.is_empty(), "nothing breaks {name}");
        eprintln!("{name}: {by:?}");
    }
}
