//! A driver: the ports of a machine's reconciler, with an await wherever a real driver has one.

use std::cell::Cell;

use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::effect::Effect;
use usher_domain::fleet::event::Event;
use usher_domain::fleet::facts::CommandState;
use usher_domain::fleet::observe::{Observed, fold};
use usher_domain::fleet::reason::Reason;
use usher_domain::fleet::snapshot::Source;
use usher_kernel::{
    Decision, Ledger, Lifecycle, Observation as _, Record, Stopped, Timestamp, Trouble, Version,
    Wake, World, step,
};

use crate::clock::REQUEST_BOUND;
use crate::driver_step::{DriverStep, Point};
use crate::fleet::breakage::Breakage;
use crate::fleet::execute::Request;
use crate::fleet::plan::PAIRS;
use crate::fleet::state::State;
use crate::fleet::store::{Message, Write};
use crate::sim_world::SimWorld as _;

/// What a driver notes in this world.
pub struct Notes {
    /// The epoch of each shard when it claimed.
    pub epochs: Vec<u64>,
    /// Where in the machine's history the last verb was accepted before the snapshot.
    pub floor: Cell<usize>,
}

type FleetStep<'a> = DriverStep<'a, State>;

impl FleetStep<'_> {
    /// Runs one step of the machine that was claimed.
    pub(crate) async fn one_step(&self) -> Result<Wake, Stopped> {
        let done = step(&BentMachine(self), self, self, self.claimed_at).await?;
        Ok(done.map_or(Wake::Never, |it| it.wake))
    }

    fn epoch(&self) -> u64 {
        let shard = self.state.borrow().store.owner(self.work_item);
        self.notes.epochs.get(shard).copied().unwrap_or(0)
    }

    /// Whether its shard has not started again since it claimed.
    fn is_of_the_epoch(&self, shard: usize) -> bool {
        self.notes.epochs.get(shard) == Some(&self.state.borrow().store.shards[shard].epoch)
    }

    fn store_answers(&self) -> Result<(), Trouble> {
        let state = self.state.borrow();
        if state.base.tick < state.store.down_until {
            return Err(Trouble::unavailable("the store".to_owned()));
        }
        Ok(())
    }

    /// Commits the decision, if the version still matches.
    fn write(&self, version: Version, decision: &Decision<BentMachine<'_>>) -> Result<(), Trouble> {
        self.store_answers()?;
        let index = self.work_item;
        let owner = self.state.borrow().store.owner(index);
        if !self.is_of_the_epoch(owner) {
            return Err(Trouble::Conflict);
        }
        let mut state = self.state.borrow_mut();
        let before = state.store.rows[index].record.state.clone();
        let breakage = state.base.breakage;
        let event = match breakage {
            Some(it) => it.bend_event(decision.event.clone()),
            None => decision.event.clone(),
        };
        let version = (!state.is_broken(Breakage::SkipVersion)).then_some(version);
        let (next, rows) = (decision.next.clone(), &decision.rows);
        state.store.write(index, version, Write { next, rows, event: event.clone() })?;
        if state.is_broken(Breakage::TellTwice)
            && let Some(emitted) = state.store.events.last().cloned().filter(|_| event.is_some())
        {
            state.store.events.push(emitted);
        }
        state.reindex(index);
        state.check_commit(index, &before, self.notes.floor.get());
        let reason = decision.reason;
        state.say(|it| {
            let row = &it.store.rows[index].record.state;
            format!("row {index} is {} ({reason})", row.phase())
        });
        Ok(())
    }
}

/// The machine's rules, bent if a breakage says so.
pub struct BentMachine<'a>(&'a FleetStep<'a>);

impl Lifecycle for BentMachine<'_> {
    type State = Machine;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Machine>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let (reconciler, breakage) = {
            let state = self.0.state.borrow();
            (state.reconciler(), state.base.breakage)
        };
        let mut decided = reconciler.decide(record, seen, now);
        if let Some(breakage) = breakage {
            breakage.bend_decision(&mut decided, record, (seen, now));
            if breakage == Breakage::WaitOnIncomplete && seen.is_incomplete() {
                decided.wake = Wake::OnChange;
            }
        }
        let Decision { next, rows, effect, event, wake, reason } = decided;
        let (token, command) = (next.fields().token, next.fields().command);
        let mut state = self.0.state.borrow_mut();
        state.last_deed = state.base.tick;
        if token != seen.fresh || command != CommandState::Recorded {
            let owner = state.store.owner(self.0.work_item);
            state.store.shards[owner].issuer.settle(seen.fresh);
            state.store.shards[owner].reserved.remove(&seen.fresh);
        }
        drop(state);
        let pair = effect.as_ref().map(|effect| (next.phase(), effect.kind()));
        self.0.decided((&PAIRS, pair), seen, wake);
        Decision { next, rows, effect, event, wake, reason }
    }
}

impl<'a> World<BentMachine<'a>> for FleetStep<'a> {
    async fn observe(&self, record: &Record<Machine>) -> Result<Observed, Trouble> {
        self.pause(Point::Snapshot).await;
        let epoch = self.epoch();
        let mut state = self.state.borrow_mut();
        let machine = state.store.rows[self.work_item].machine;
        self.notes.floor.set(state.outside.machines[machine].floor);
        let snapshot = state.observe_machine(self.work_item, &record.state, epoch);
        Ok(fold(&record.state, &snapshot))
    }

    async fn apply(&self, _: &Record<Machine>, effect: &Effect) -> Result<(), Trouble> {
        let (row, shard) = (self.work_item, self.state.borrow().store.owner(self.work_item));
        let effect = effect.clone();
        let token = effect.token;
        let epoch = self.epoch();
        let sent = self.send(|leased| Request { row, shard, effect, leased, epoch }).await;
        let alive = self.is_of_the_epoch(shard);
        let mut state = self.state.borrow_mut();
        let (now, tick) = (state.now(), state.base.tick);
        let machine = state.store.rows[row].machine;
        let answer = state.outside.answers.remove(&(machine, token));
        match (&sent, answer) {
            (Ok(()), Some(raw)) if alive => {
                let source = Source::Acknowledgement;
                let message = Message { source, stamp: token, raw: Some(raw) };
                state.store.rows[row].messages.push(message);
                state.store.shards[shard].issuer.settle(token);
                state.store.shards[shard].reserved.remove(&token);
                state.store.wake(row, now);
            }
            (Ok(()) | Err(_), _) => {
                let settles_at = tick + REQUEST_BOUND + 1;
                state.store.shards[shard].reserved.insert(token, settles_at);
            }
        }
        sent
    }
}

impl<'a> Ledger<BentMachine<'a>> for FleetStep<'a> {
    async fn load(&self) -> Result<Option<Record<Machine>>, Trouble> {
        self.pause(Point::Load).await;
        self.store_answers()?;
        Ok(Some(self.state.borrow().store.rows[self.work_item].record.clone()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<BentMachine<'a>>,
    ) -> Result<(), Trouble> {
        self.commit_ours(|| self.write(version, decision)).await
    }
}
