//! A driver: the ports of both reconcilers, with an await wherever a real driver has one.

use std::cell::Cell;

use usher_domain::usage::aggregate::Usage;
use usher_domain::usage::effect::Effect;
use usher_domain::usage::event::Event;
use usher_domain::usage::observe::{Observed, fold};
use usher_domain::usage::reason::Reason;
use usher_domain::usage::reconciler::UsageReconciler;
use usher_domain::usage::stray::{self, Marked, Unmark};
use usher_kernel::{
    Decision, Ledger, Lifecycle, NameLedger, Observation as _, Record, Stopped, Timestamp, Trouble,
    Version, Wake, World, step,
};

use crate::clock::{INTERVAL, Tick, millis};
use crate::driver_step::{DriverStep, Point};
use crate::sim_world::SimWorld as _;
use crate::usage::breakage::Breakage;
use crate::usage::execute::{Request, Verb};
use crate::usage::outside::{Object, uid};
use crate::usage::plan::PAIRS;
use crate::usage::state::State;
use crate::usage::store::Item;

/// What a driver notes in this world.
pub struct Notes {
    /// When it last observed the world.
    pub observed_at: Cell<Tick>,
}

type UsageStep<'a> = DriverStep<'a, State>;

impl UsageStep<'_> {
    /// Runs one step of the claimed work item.
    pub(crate) async fn one_step(&self) -> Result<Wake, Stopped> {
        let now = self.claimed_at;
        let wake = match self.work_item {
            Item::Usage(_) => step(&BentUsage(self), self, self, now).await?.map(|it| it.wake),
            Item::Stray(_) => {
                let reconciler = stray::StrayReconciler { interval: millis(INTERVAL) };
                step(&reconciler, self, self, now).await?.map(|it| it.wake)
            }
        };
        let mut state = self.state.borrow_mut();
        match (self.work_item, wake) {
            (Item::Usage(_) | Item::Stray(_), None) => {
                state.queue.remove(&self.work_item);
            }
            (Item::Stray(_), Some(Wake::Never)) => state.forget(self.work_item),
            (Item::Usage(_) | Item::Stray(_), Some(_)) => {}
        }
        Ok(wake.unwrap_or(Wake::Never))
    }

    fn place(&self) -> u64 {
        match self.work_item {
            Item::Usage(place) | Item::Stray(place) => place,
        }
    }

    async fn send_verb(&self, version: Version, verb: Verb) -> Result<(), Trouble> {
        let observed_at = self.notes.observed_at.get();
        let sender = self.place();
        self.send(|_| Request { sender, version, verb, observed_at }).await
    }

    /// Writes the status if the Usage is still the one that was read.
    fn write(&self, version: Version, decision: &Decision<BentUsage<'_>>) -> Result<(), Trouble> {
        let place = self.place();
        let mut state = self.state.borrow_mut();
        let Some(before) = state.outside.by_uid(place).and_then(Object::record) else {
            return Err(Trouble::Conflict);
        };
        if before.version != version && !state.is_broken(Breakage::SkipVersion) {
            return Err(Trouble::Conflict);
        }
        state.log.last_write = state.base.tick;
        let (status, name_ledger) =
            (decision.next.status.clone(), before.name_ledger.with(&decision.rows));
        state.write(place, |it| {
            if let Some(body) = &mut it.body {
                (body.status, body.name_ledger) = (status, name_ledger);
            }
        });
        let reason = decision.reason;
        state.say(|it| {
            let emitted = decision.event.as_ref().map_or("", |event| event.event_type().as_str());
            let phase = decision.next.status.phase;
            format!("{} is {phase} ({reason}) {emitted}", it.named(place))
        });
        state.check_commit(&before.state, decision.event.as_ref());
        Ok(())
    }
}

/// The rules of a Usage, bent if a breakage says so.
pub struct BentUsage<'a>(&'a UsageStep<'a>);

impl Lifecycle for BentUsage<'_> {
    type State = Usage;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Usage>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let reconciler = UsageReconciler { interval: millis(INTERVAL) };
        let breakage = self.0.breakage();
        let mut decided = match breakage {
            None => reconciler.decide(record, seen, now),
            Some(breakage) => {
                let bent = breakage.bend_record(record, seen);
                let Decision { mut next, rows, effect, event, wake, reason } =
                    reconciler.decide(&bent, seen, now);
                next.finalizer = record.state.finalizer;
                next.owners.clone_from(&record.state.owners);
                next.spec.clone_from(&record.state.spec);
                Decision { next, rows, effect, event, wake, reason }
            }
        };
        if breakage == Some(Breakage::ForgottenTimer)
            && let Some(effect @ Effect::Replay { uid, .. }) = &decided.effect
        {
            let mut state = self.0.state.borrow_mut();
            let request = Request {
                sender: self.0.place(),
                version: record.version,
                verb: Verb::Usage(effect.clone()),
                observed_at: state.base.tick,
            };
            // What is kept in memory only is lost with the next restart.
            let at = state.base.tick + 4;
            if !state.base.rng.percent(30) {
                state.timers.push((at, request));
            }
            decided.next.status.attempts.retain(|it| it.uid != *uid);
            decided.effect = None;
        }
        if let Some(breakage) = breakage {
            breakage.bend_decision(record, &mut decided);
            if breakage == Breakage::WaitOnIncomplete && seen.is_incomplete() {
                decided.wake = Wake::OnChange;
            }
        }
        let Decision { next, rows, effect, event, wake, reason } = decided;
        let pair = effect.as_ref().map(|effect| (next.status.phase, effect.kind()));
        self.0.decided((&PAIRS, pair), seen, wake);
        Decision { next, rows, effect, event, wake, reason }
    }
}

impl<'a> World<BentUsage<'a>> for UsageStep<'a> {
    async fn observe(&self, record: &Record<Usage>) -> Result<Observed, Trouble> {
        self.pause(Point::Snapshot).await;
        let mut state = self.state.borrow_mut();
        self.notes.observed_at.set(state.base.tick);
        let breakage = state.base.breakage;
        let mut snapshot = state.snapshot(record);
        if let Some(breakage) = breakage {
            breakage.bend_snapshot(record, &mut snapshot);
        }
        let Some(breakage) = breakage else {
            return Ok(fold(&record.state, &record.name_ledger, &snapshot));
        };
        let mut seen = fold(&breakage.bend_usage(&record.state), &record.name_ledger, &snapshot);
        breakage.bend_seen(record, &snapshot, &mut seen);
        Ok(seen)
    }

    async fn apply(&self, record: &Record<Usage>, effect: &Effect) -> Result<(), Trouble> {
        self.send_verb(record.version, Verb::Usage(effect.clone())).await
    }
}

impl<'a> Ledger<BentUsage<'a>> for UsageStep<'a> {
    async fn load(&self) -> Result<Option<Record<Usage>>, Trouble> {
        self.pause(Point::Load).await;
        let state = self.state.borrow();
        Ok(state.outside.by_uid(self.place()).and_then(Object::record))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<BentUsage<'a>>,
    ) -> Result<(), Trouble> {
        self.pause(Point::BeforeCommit).await;
        // The object is the record: a cluster compares its version and knows nothing of claims, and
        // the watch wakes the record that was written late.
        let written = self.write(version, decision);
        self.committed(written).await
    }
}

impl World<stray::StrayReconciler> for UsageStep<'_> {
    async fn observe(&self, record: &Record<Marked>) -> Result<stray::Observed, Trouble> {
        self.pause(Point::Snapshot).await;
        let mut state = self.state.borrow_mut();
        self.notes.observed_at.set(state.base.tick);
        Ok(stray::fold(&state.observe_mark(&record.state)))
    }

    async fn apply(&self, record: &Record<Marked>, effect: &Unmark) -> Result<(), Trouble> {
        if self.breakage() == Some(Breakage::DropStrays) {
            return Ok(());
        }
        self.send_verb(record.version, Verb::Stray(effect.clone())).await
    }
}

impl Ledger<stray::StrayReconciler> for UsageStep<'_> {
    async fn load(&self) -> Result<Option<Record<Marked>>, Trouble> {
        self.pause(Point::Load).await;
        let state = self.state.borrow();
        let object = state.outside.by_uid(self.place());
        Ok(object.map(|it| {
            let state = Marked { object: it.key.clone(), uid: uid(it.uid) };
            Record { version: Version(it.revision), state, name_ledger: NameLedger::default() }
        }))
    }

    async fn commit(
        &self,
        _: Version,
        _: &Decision<stray::StrayReconciler>,
    ) -> Result<(), Trouble> {
        self.pause(Point::BeforeCommit).await;
        Ok(())
    }
}

impl State {
    /// A marked object is not marked any more. Should the mark reappear, the watch reports it.
    fn forget(&mut self, work_item: Item) {
        let Item::Stray(place) = work_item else { return };
        let marked = self.outside.by_uid(place).is_some_and(|it| it.mark.is_some());
        if marked {
            self.wake(work_item);
        } else {
            self.queue.remove(&work_item);
        }
    }
}
