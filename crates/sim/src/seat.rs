//! A driver's seat: the ports of every life, with an await wherever a real driver has one.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::task::Poll;
use std::time::Duration;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::event::Event;
use usher_domain::broker::facts::Tenure;
use usher_domain::broker::life::{Broker, Deadlines};
use usher_domain::broker::observe::{Observed, fold};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::reason::Reason;
use usher_domain::broker::tombstone::Tombstone;
use usher_kernel::schedule::Claim;
use usher_kernel::{
    Decision, Ledger, Lifecycle, Record, Stopped, Timestamp, Trouble, Version, Wake, World, step,
};

use crate::breakage::Breakage;
use crate::check::Crossing;
use crate::execute::{AnyVerb, Request, Sender};
use crate::fault::Fault;
use crate::plan::{INTERVAL, Pair, REQUEST_BOUND, Strike, Tick};
use crate::state::State;
use crate::store::{Life, Write};

/// Where a step pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before the record is read.
    Load,
    /// Before the world is looked at.
    Look,
    /// Before a verb is sent.
    BeforeVerb,
    /// After a verb was done and before its answer.
    AfterVerb,
    /// Before the commit.
    BeforeCommit,
    /// After the commit and before its answer.
    AfterCommit,
}

/// One simulated life and the rule that is broken in it.
pub struct Sim {
    /// Everything that changes.
    pub state: RefCell<State>,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

/// A driver at work on one claim.
pub struct Seat<'a> {
    /// The life.
    pub sim: &'a Sim,
    /// Whose turn it is.
    pub life: Life,
    /// The claim it holds.
    pub claim: Claim,
    /// When it claimed.
    pub claimed_at: Timestamp,
    /// The number of the next event when it claimed.
    pub next_number: u64,
    /// Where it paused.
    pub point: Cell<Point>,
    /// When it last looked at the world.
    pub looked_at: Cell<Tick>,
    /// Whether the rail had tripped by then.
    pub behind_rail: Cell<bool>,
    /// Whether its verb was really done.
    pub done: Cell<bool>,
    /// The pair of the table that it is about to do.
    pub pair: Cell<Option<Pair>>,
}

impl Seat<'_> {
    /// Runs one step of whatever life was claimed.
    pub async fn step(&self) -> Result<Wake, Stopped> {
        let now = self.claimed_at;
        match self.life {
            Life::Resource(_) => step(&BentBroker(self), self, self, now).await.map(|it| it.wake),
            Life::Tombstone(_) => {
                let life = Tombstone { interval: millis(INTERVAL), ..Tombstone::default() };
                step(&life, self, self, now).await.map(|it| it.wake)
            }
            Life::Config => step(&BentConfig(self), self, self, now).await.map(|it| it.wake),
        }
    }

    fn index(&self) -> usize {
        match self.life {
            Life::Resource(i) | Life::Tombstone(i) => i,
            Life::Config => 0,
        }
    }

    fn is_broken(&self, breakage: Breakage) -> bool {
        self.sim.breakage == Some(breakage)
    }

    /// A place to die or to fall asleep.
    async fn pause(&self, point: Point) {
        self.point.set(point);
        let mut asked = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn observed(&self, record: &Record<Resource>) -> Observed {
        let mut state = self.sim.state.borrow_mut();
        self.looked_at.set(state.tick);
        self.behind_rail.set(state.store.rail_tripped);
        let barrier = !self.is_broken(Breakage::TrustLagging);
        let mut look = state.look(self.index(), record, barrier);
        if let Some(breakage) = self.sim.breakage {
            breakage.bend_look(&mut look);
        }
        let mut seen = fold(&record.state, &record.book, &look);
        if let Some(breakage) = self.sim.breakage {
            breakage.bend_seen(record, &mut seen);
        }
        seen
    }

    /// Sends a verb: it may be refused, arrive twice, or lose its answer.
    async fn send(&self, verb: AnyVerb) -> Result<(), Trouble> {
        self.pause(Point::BeforeVerb).await;
        let (done, comes_again) = self.arrive(verb);
        self.pause(Point::AfterVerb).await;
        if comes_again {
            return Err(Trouble::Unavailable { what: "the answer".to_owned() });
        }
        let mut state = self.sim.state.borrow_mut();
        if !self.done.get() {
            return done;
        }
        let wanted = state.wants(self.pair.get(), Strike::AnswerLost);
        if wanted || state.happens(Fault::AnswerLost, 60) {
            state.met(Fault::AnswerLost);
            if let Some(pair) = self.pair.get() {
                state.coverage.strike(pair, Strike::AnswerLost);
            }
            return Err(Trouble::Unavailable { what: "the answer".to_owned() });
        }
        done
    }

    /// What the world does with a verb, and whether the request will arrive once more. One that
    /// comes again later is never answered; one that comes twice at once is answered once.
    fn arrive(&self, verb: AnyVerb) -> (Result<(), Trouble>, bool) {
        let mut state = self.sim.state.borrow_mut();
        state.coverage.verbs += 1;
        if state.strikes(Fault::Refusal, 80) {
            return (Err(Trouble::Rejected { what: "the cluster".to_owned() }), false);
        }
        let sender = match self.life {
            Life::Resource(i) | Life::Tombstone(i) => Sender::Resource(i),
            Life::Config => Sender::Config,
        };
        let in_time = state.now() < self.claim.until.after(millis(REQUEST_BOUND));
        let looked_at = self.looked_at.get();
        let request = Request { sender, verb, in_time, looked_at, breakage: self.sim.breakage };
        let tick = state.tick;
        if state.outside.is_rebuilt(tick) && request.is_for_cluster() {
            return (Ok(()), false);
        }
        let repeated = state.strikes(Fault::Repeated, 60);
        let comes_again = repeated && state.rng.percent(50);
        if comes_again {
            let later = tick + state.rng.between(1, REQUEST_BOUND - 1);
            state.echoes.push((later, request.clone()));
        } else if repeated {
            let _ = state.execute(&request);
        }
        let done = state.execute(&request);
        self.done.set(done.is_ok());
        let late = self.claim.until <= state.now();
        if let (true, true, Some(pair)) = (late, done.is_ok(), self.pair.get()) {
            state.coverage.strike(pair, Strike::LateDriver);
        }
        (done, comes_again)
    }

    /// Writes through the one door, if the version still holds.
    fn write(&self, version: Version, decision: &Decision<BentBroker<'_>>) -> Result<(), Trouble> {
        let index = self.index();
        let mut state = self.sim.state.borrow_mut();
        let now = state.now();
        let before = state.store.resources[index].record.clone();
        let breakage = self.sim.breakage;
        let (next, event) = match breakage {
            Some(it) => (it.bend_next(&decision.next), it.bend_event(decision.event.clone())),
            None => (decision.next.clone(), decision.event.clone()),
        };
        let version = (!self.is_broken(Breakage::SkipVersion)).then_some(version);
        let promised = self.is_broken(Breakage::NumberEarly).then_some(self.next_number);
        let write = Write { version, next, rows: &decision.rows, event, promised, breakage };
        state.store.write(index, write, now)?;
        state.check_given_up(index, &before, self.behind_rail.get());
        let before = Crossing::from(&before.state);
        state.check_told(index, before);
        state.check_commit(index, before, self.looked_at.get());
        let reason = decision.reason;
        state.say(|it| {
            let row = &it.store.resources[index].record.state;
            let told = decision.event.as_ref().map_or("", |event| event.event_type().as_str());
            format!("resource {index} is {} {} ({reason}) {told}", row.phase(), row.generation())
        });
        Ok(())
    }

    async fn committed(&self, result: Result<(), Trouble>) -> Result<(), Trouble> {
        self.pause(Point::AfterCommit).await;
        result?;
        if self.sim.state.borrow_mut().strikes(Fault::CommitAnswerLost, 50) {
            return Err(Trouble::Unavailable { what: "the answer of the commit".to_owned() });
        }
        Ok(())
    }
}

/// The broker's rules, bent if a breakage says so.
pub struct BentBroker<'a>(&'a Seat<'a>);

impl Lifecycle for BentBroker<'_> {
    type State = Resource;
    type Observed = Observed;
    type Effect = Effect;
    type Event = Event;
    type Reason = Reason;

    fn decide(&self, record: &Record<Resource>, seen: &Observed, now: Timestamp) -> Decision<Self> {
        let broker = Broker {
            interval: millis(INTERVAL),
            deadlines: Deadlines {
                provisioning: millis(120),
                enrolment: millis(120),
                drain: millis(20),
                teardown: millis(60),
            },
        };
        let breakage = self.0.sim.breakage;
        let mut decided = match breakage {
            None => broker.decide(record, seen, now),
            Some(breakage) => broker.decide(&breakage.bend_record(record, seen), seen, now),
        };
        if let Some(breakage) = breakage {
            breakage.bend_decision(&mut decided, now);
        }
        let Decision { next, rows, effect, event, wake, reason } = decided;
        self.0.pair.set(effect.as_ref().map(|effect| (next.phase(), effect.kind())));
        self.0.sim.state.borrow_mut().coverage.steps += 1;
        Decision { next, rows, effect, event, wake, reason }
    }
}

impl<'a> World<BentBroker<'a>> for Seat<'a> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.pause(Point::Look).await;
        Ok(self.observed(record))
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.send(AnyVerb::Resource(effect.clone())).await
    }
}

impl<'a> Ledger<BentBroker<'a>> for Seat<'a> {
    async fn load(&self) -> Result<Record<Resource>, Trouble> {
        self.pause(Point::Load).await;
        Ok(self.sim.state.borrow().store.resources[self.index()].record.clone())
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<BentBroker<'a>>,
    ) -> Result<(), Trouble> {
        self.pause(Point::BeforeCommit).await;
        let written = self.write(version, decision);
        self.committed(written).await
    }
}

impl World<Tombstone> for Seat<'_> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.pause(Point::Look).await;
        Ok(self.observed(record))
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.send(AnyVerb::Resource(effect.clone())).await
    }
}

impl Ledger<Tombstone> for Seat<'_> {
    async fn load(&self) -> Result<Record<Resource>, Trouble> {
        self.pause(Point::Load).await;
        Ok(self.sim.state.borrow().store.resources[self.index()].record.clone())
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<Tombstone>,
    ) -> Result<(), Trouble> {
        self.pause(Point::BeforeCommit).await;
        let written = {
            let mut state = self.sim.state.borrow_mut();
            let now = state.now();
            let write = Write {
                version: Some(version),
                next: decision.next.clone(),
                rows: &decision.rows,
                event: None,
                promised: None,
                breakage: self.sim.breakage,
            };
            state.say(|_| format!("tombstone {}: {}", self.index(), decision.reason));
            state.store.write(self.index(), write, now)
        };
        self.committed(written).await
    }
}

/// The ProviderConfig's rules, bent if a breakage says so.
pub struct BentConfig<'a>(&'a Seat<'a>);

impl Lifecycle for BentConfig<'_> {
    type State = ProviderConfig;
    type Observed = provider_config::Observed;
    type Effect = Verb;
    type Event = Infallible;
    type Reason = provider_config::Reason;

    fn decide(
        &self,
        record: &Record<ProviderConfig>,
        seen: &provider_config::Observed,
        now: Timestamp,
    ) -> Decision<Self> {
        let life = provider_config::Life { interval: millis(INTERVAL) };
        let mut record = record.clone();
        let users = record.state.users;
        let referred = self.0.sim.state.borrow().store.resources.iter().any(|row| {
            row.record.state.tenure() == Tenure::Live && row.record.state.phase() != Phase::Deleted
        });
        if referred && self.0.is_broken(Breakage::ConfigFirst) {
            record.state.users = 0;
        }
        let Decision { mut next, rows, effect, event, wake, reason } =
            life.decide(&record, seen, now);
        next.users = users;
        Decision { next, rows, effect, event, wake, reason }
    }
}

impl<'a> World<BentConfig<'a>> for Seat<'a> {
    async fn observe(
        &self,
        record: &Record<ProviderConfig>,
    ) -> Result<provider_config::Observed, Trouble> {
        self.pause(Point::Look).await;
        let look = self.sim.state.borrow_mut().look_at_config(record);
        Ok(provider_config::fold(&record.state, &record.book, &look))
    }

    async fn apply(&self, _: &Record<ProviderConfig>, verb: &Verb) -> Result<(), Trouble> {
        self.send(AnyVerb::Config(verb.clone())).await
    }
}

impl<'a> Ledger<BentConfig<'a>> for Seat<'a> {
    async fn load(&self) -> Result<Record<ProviderConfig>, Trouble> {
        self.pause(Point::Load).await;
        Ok(self.sim.state.borrow().store.config.record.clone())
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<BentConfig<'a>>,
    ) -> Result<(), Trouble> {
        self.pause(Point::BeforeCommit).await;
        let written = {
            let mut state = self.sim.state.borrow_mut();
            let record = &mut state.store.config.record;
            if record.version == version {
                record.version = version.next();
                record.book = record.book.with(&decision.rows);
                record.state = decision.next.clone();
                let (phase, reason) = (record.state.phase, decision.reason);
                state.say(|_| format!("the ProviderConfig is {phase} ({reason})"));
                Ok(())
            } else {
                Err(Trouble::Conflict)
            }
        };
        self.committed(written).await
    }
}

/// A simulated span.
pub fn millis(ticks: Tick) -> Duration {
    Duration::from_millis(ticks.unsigned_abs())
}
