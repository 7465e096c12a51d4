//! A driver: the ports of a direct resource's reconciler.

use std::cell::Cell;

use usher_domain::direct::aggregate::Resource;
use usher_domain::direct::effect::Effect;
use usher_domain::direct::event::Event;
use usher_domain::direct::facts::{Facts, RowFacts};
use usher_domain::direct::observe::{Observed, fold};
use usher_domain::direct::reason::Reason;
use usher_domain::direct::reconciler::Direct;
use usher_kernel::{
    Condition, Decision, Ledger, Lifecycle, Record, Stopped, Timestamp, Trouble, Version, Wake,
    World, step,
};

use crate::clock::{INTERVAL, LEASE, REQUEST_BOUND, Tick, millis};
use crate::direct::breakage::Breakage;
use crate::direct::execute::Request;
use crate::direct::plan::PAIRS;
use crate::direct::state::State;
use crate::direct::store::Write;
use crate::driver_step::{DriverStep, Point};
use crate::sim_world::SimWorld as _;

/// How long a deleted resource is watched.
pub const KEEP: Tick = 6 * LEASE;

/// The simulated settings of a direct resource.
pub const LIFE: Direct = Direct {
    interval: std::time::Duration::from_millis(INTERVAL.unsigned_abs()),
    slow: std::time::Duration::from_millis(2 * INTERVAL.unsigned_abs()),
    request_bound: std::time::Duration::from_millis(REQUEST_BOUND.unsigned_abs()),
    keep: std::time::Duration::from_millis(KEEP.unsigned_abs()),
};

/// What a driver notes in this world.
pub struct Notes {
    /// When it last observed the world.
    pub observed_at: Cell<Tick>,
    /// What an honest snapshot saw.
    pub seen: Cell<Option<(RowFacts, Facts)>>,
}

type DirectStep<'a> = DriverStep<'a, State>;

impl DirectStep<'_> {
    /// Runs one step of the claimed record.
    pub(crate) async fn one_step(&self) -> Result<Wake, Stopped> {
        let done = step(&BentDirect(self), self, self, self.claimed_at).await?;
        Ok(done.map_or(Wake::Never, |it| it.wake))
    }

    fn observed(&self, record: &Record<Resource>) -> Observed {
        let mut state = self.state.borrow_mut();
        self.notes.observed_at.set(state.base.tick);
        let mut snapshot = state.snapshot(self.work_item, record, true);
        let seen = fold(&record.state, &record.name_ledger, &snapshot);
        self.notes.seen.set(Some((seen.row(record, state.now()), seen.facts)));
        let Some(breakage) = state.base.breakage else {
            return seen;
        };
        breakage.bend_snapshot(record, &mut snapshot);
        let bent = breakage.bend_record(record);
        let mut seen = fold(&bent.state, &bent.name_ledger, &snapshot);
        breakage.bend_seen(&mut seen);
        seen
    }

    /// Commits the decision, if the version still matches.
    fn write(&self, version: Version, decision: &Decision<BentDirect<'_>>) -> Result<(), Trouble> {
        let index = self.work_item;
        let mut state = self.state.borrow_mut();
        let before = state.store.resources[index].record.clone();
        let breakage = state.base.breakage;
        let (next, event) = match breakage {
            Some(it) => (it.bend_next(&decision.next), it.bend_event(decision.event.clone())),
            None => (decision.next.clone(), decision.event.clone()),
        };
        let version = (breakage != Some(Breakage::SkipVersion)).then_some(version);
        let (rows, reason) = (decision.rows.as_slice(), decision.reason);
        let write = Write { version, next, rows, event, reason, breakage };
        state.store.write(index, write)?;
        let observed_at = self.notes.observed_at.get();
        state.check_commit(index, &before, (self.notes.seen.get(), observed_at));
        state.say(|it| {
            let row = &it.store.resources[index];
            let emitted = decision.event.as_ref().map_or("", |event| event.event_type().as_str());
            format!("{} is {} ({reason}) {emitted}", row.object, row.record.state.phase())
        });
        if breakage == Some(Breakage::ForgetEnded) {
            state.forget_ended(index);
        }
        Ok(())
    }
}

/// The rules of direct resources, bent if a breakage says so.
pub struct BentDirect<'a>(&'a DirectStep<'a>);

impl Lifecycle for BentDirect<'_> {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Resource>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let driver = self.0;
        let mut decided = match driver.breakage() {
            None => LIFE.decide(record, seen, now),
            Some(breakage) => {
                let mut decided = LIFE.decide(&breakage.bend_record(record), seen, now);
                breakage.bend_decision(record, (seen, now), &mut decided);
                decided
            }
        };
        let pair = decided.effect.as_ref().map(|it| (decided.next.phase(), it.kind()));
        driver.decided((&PAIRS, pair), seen, decided.wake);
        if let Some(honest) = driver.notes.seen.get() {
            let mut state = driver.state.borrow_mut();
            let ended = decided.next.fields().outcome;
            let acts = decided.effect.is_some() || ended != record.state.fields().outcome;
            state.check_decision(driver.work_item, honest, (acts, ended, decided.reason));
        }
        let Decision { next, rows, effect, event, wake, reason } = &mut decided;
        Decision {
            next: next.clone(),
            rows: std::mem::take(rows),
            effect: effect.take(),
            event: event.take(),
            wake: *wake,
            reason: *reason,
        }
    }
}

impl<'a> World<BentDirect<'a>> for DirectStep<'a> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.pause(Point::Snapshot).await;
        Ok(self.observed(record))
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        let (row, verb) = (self.work_item, effect.clone());
        let deadline = self.claim.until.after(millis(REQUEST_BOUND));
        let Some((_, facts)) = self.notes.seen.get() else {
            return Ok(());
        };
        self.send(|_| Request { row, verb, facts, deadline, held_up: false }).await
    }
}

impl<'a> Ledger<BentDirect<'a>> for DirectStep<'a> {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        self.pause(Point::Load).await;
        Ok(Some(self.state.borrow().store.resources[self.work_item].record.clone()))
    }

    async fn report(&self, condition: &Condition<Reason>) -> Result<(), Trouble> {
        if !self.is_overtaken() {
            self.state.borrow_mut().store.resources[self.work_item].reason = condition.reason;
        }
        Ok(())
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<BentDirect<'a>>,
    ) -> Result<(), Trouble> {
        self.commit_ours(|| self.write(version, decision)).await
    }
}
