//! A driver's seat: the ports of both lives, with an await wherever a real driver has one.

use std::cell::Cell;

use usher_domain::usage::aggregate::Usage;
use usher_domain::usage::effect::Effect;
use usher_domain::usage::event::Event;
use usher_domain::usage::life::Life as UsageLife;
use usher_domain::usage::observe::{Observed, fold};
use usher_domain::usage::reason::Reason;
use usher_domain::usage::stray::{self, Marked, Unmark};
use usher_kernel::{
    Book, Decision, Ledger, Lifecycle, Observation as _, Record, Stopped, Timestamp, Trouble,
    Version, Wake, World, step,
};

use crate::clock::{INTERVAL, Tick, millis};
use crate::realm::Realm as _;
use crate::seat::{Point, Seat};
use crate::usage::breakage::Breakage;
use crate::usage::execute::{Request, Verb};
use crate::usage::outside::{Object, uid};
use crate::usage::plan::PAIRS;
use crate::usage::state::State;
use crate::usage::store::Life;

/// What a driver notes in this world.
pub struct Notes {
    /// When it last looked at the world.
    looked_at: Cell<Tick>,
}

impl Notes {
    /// The notes of a driver that has just claimed.
    pub const fn new(tick: Tick) -> Self {
        Self { looked_at: Cell::new(tick) }
    }
}

type UsageSeat<'a> = Seat<'a, State>;

impl UsageSeat<'_> {
    /// Runs one step of whatever life was claimed.
    pub(crate) async fn one_step(&self) -> Result<Wake, Stopped> {
        let now = self.claimed_at;
        let wake = match self.life {
            Life::Usage(_) => step(&BentUsage(self), self, self, now).await?.map(|it| it.wake),
            Life::Stray(_) => {
                let life = stray::Life { interval: millis(INTERVAL) };
                step(&life, self, self, now).await?.map(|it| it.wake)
            }
        };
        let mut state = self.state.borrow_mut();
        match (self.life, wake) {
            (Life::Usage(_) | Life::Stray(_), None) => {
                state.queue.remove(&self.life);
            }
            (Life::Stray(_), Some(Wake::Never)) => state.forget(self.life),
            (Life::Usage(_) | Life::Stray(_), Some(_)) => {}
        }
        Ok(wake.unwrap_or(Wake::Never))
    }

    fn place(&self) -> u64 {
        match self.life {
            Life::Usage(place) | Life::Stray(place) => place,
        }
    }

    fn breakage(&self) -> Option<Breakage> {
        self.state.borrow().breakage
    }

    async fn send_verb(&self, version: Version, verb: Verb) -> Result<(), Trouble> {
        let looked_at = self.notes.looked_at.get();
        let sender = self.place();
        self.send(|_| Request { sender, version, verb, looked_at }).await
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
        let (status, book) = (decision.next.status.clone(), before.book.with(&decision.rows));
        state.write(place, |it| {
            if let Some(body) = &mut it.body {
                (body.status, body.book) = (status, book);
            }
        });
        let reason = decision.reason;
        state.say(|it| {
            let told = decision.event.as_ref().map_or("", |event| event.event_type().as_str());
            let phase = decision.next.status.phase;
            format!("{} is {phase} ({reason}) {told}", it.named(place))
        });
        state.check_commit(&before.state, decision.event.as_ref());
        Ok(())
    }
}

/// The rules of a Usage, bent if a breakage says so.
pub struct BentUsage<'a>(&'a UsageSeat<'a>);

impl Lifecycle for BentUsage<'_> {
    type State = Usage;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Usage>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let life = UsageLife { interval: millis(INTERVAL) };
        let breakage = self.0.breakage();
        let mut decided = match breakage {
            None => life.decide(record, seen, now),
            Some(breakage) => {
                let bent = breakage.bend_record(record, seen);
                let Decision { mut next, rows, effect, event, wake, reason } =
                    life.decide(&bent, seen, now);
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
                looked_at: state.base.tick,
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

impl<'a> World<BentUsage<'a>> for UsageSeat<'a> {
    async fn observe(&self, record: &Record<Usage>) -> Result<Observed, Trouble> {
        self.pause(Point::Look).await;
        let mut state = self.state.borrow_mut();
        self.notes.looked_at.set(state.base.tick);
        let breakage = state.breakage;
        let mut look = state.look(record);
        if let Some(breakage) = breakage {
            breakage.bend_look(record, &mut look);
        }
        let Some(breakage) = breakage else {
            return Ok(fold(&record.state, &record.book, &look));
        };
        let mut seen = fold(&breakage.bend_usage(&record.state), &record.book, &look);
        breakage.bend_seen(record, &look, &mut seen);
        Ok(seen)
    }

    async fn apply(&self, record: &Record<Usage>, effect: &Effect) -> Result<(), Trouble> {
        self.send_verb(record.version, Verb::Usage(effect.clone())).await
    }
}

impl<'a> Ledger<BentUsage<'a>> for UsageSeat<'a> {
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
        // the watch wakes the life that was written late.
        let written = self.write(version, decision);
        self.committed(written).await
    }
}

impl World<stray::Life> for UsageSeat<'_> {
    async fn observe(&self, record: &Record<Marked>) -> Result<stray::Observed, Trouble> {
        self.pause(Point::Look).await;
        let mut state = self.state.borrow_mut();
        self.notes.looked_at.set(state.base.tick);
        Ok(stray::fold(&state.look_at_mark(&record.state)))
    }

    async fn apply(&self, record: &Record<Marked>, effect: &Unmark) -> Result<(), Trouble> {
        if self.breakage() == Some(Breakage::DropStrays) {
            return Ok(());
        }
        self.send_verb(record.version, Verb::Stray(effect.clone())).await
    }
}

impl Ledger<stray::Life> for UsageSeat<'_> {
    async fn load(&self) -> Result<Option<Record<Marked>>, Trouble> {
        self.pause(Point::Load).await;
        let state = self.state.borrow();
        let object = state.outside.by_uid(self.place());
        Ok(object.map(|it| {
            let state = Marked { object: it.key.clone(), uid: uid(it.uid) };
            Record { version: Version(it.revision), state, book: Book::default() }
        }))
    }

    async fn commit(&self, _: Version, _: &Decision<stray::Life>) -> Result<(), Trouble> {
        self.pause(Point::BeforeCommit).await;
        Ok(())
    }
}

impl State {
    /// A marked object is not marked any more. Should the mark come back, the watch says so.
    fn forget(&mut self, life: Life) {
        let Life::Stray(place) = life else { return };
        let marked = self.outside.by_uid(place).is_some_and(|it| it.mark.is_some());
        if marked {
            self.wake(life);
        } else {
            self.queue.remove(&life);
        }
    }
}
