//! A driver: the ports of every work item, with an await wherever a real driver has one.

use std::cell::Cell;
use std::convert::Infallible;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::event::Event;
use usher_domain::broker::facts::GenerationState;
use usher_domain::broker::ledger::{self, ConfigWrite, Release, Stay};
use usher_domain::broker::observe::{Observed, fold};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::reason::Reason;
use usher_domain::broker::reconciler::{Broker, Deadlines};
use usher_domain::broker::tombstone::Tombstone;
use usher_kernel::{
    Decision, Ledger, Lifecycle, Observation as _, Record, Stopped, Timestamp, Trouble, Version,
    Wake, World, step,
};

use crate::broker::breakage::Breakage;
use crate::broker::check::Crossing;
use crate::broker::execute::{AnyVerb, Request, Sender};
use crate::broker::plan::PAIRS;
use crate::broker::state::State;
use crate::broker::store::{Item, Turn, Write};
use crate::clock::{INTERVAL, Tick, millis};
use crate::driver_step::{DriverStep, Point};
use crate::sim_world::{QueueBend, SimWorld as _};

/// What a driver notes in this world.
pub struct Notes {
    /// The number of the next event when it claimed.
    pub next_number: u64,
    /// When it last observed the world.
    pub observed_at: Cell<Tick>,
    /// Whether the mass-deletion guard had tripped by then.
    pub behind_guard: Cell<bool>,
}

type BrokerStep<'a> = DriverStep<'a, State>;

impl BrokerStep<'_> {
    /// Runs one step of the claimed work item.
    pub(crate) async fn one_step(&self) -> Result<Wake, Stopped> {
        let now = self.claimed_at;
        let wake = match self.work_item {
            Item::Resource(_) => step(&BentBroker(self), self, self, now).await?.map(|it| it.wake),
            Item::Tombstone(_) => {
                let reconciler = Tombstone { interval: millis(INTERVAL), ..Tombstone::default() };
                step(&reconciler, self, self, now).await?.map(|it| it.wake)
            }
            Item::Config => step(&BentConfig(self), self, self, now).await?.map(|it| it.wake),
        };
        Ok(wake.unwrap_or(Wake::Never))
    }

    fn index(&self) -> usize {
        match self.work_item {
            Item::Resource(i) | Item::Tombstone(i) => i,
            Item::Config => 0,
        }
    }

    fn observed(&self, record: &Record<Resource>) -> Observed {
        let mut state = self.state.borrow_mut();
        self.notes.observed_at.set(state.base.tick);
        self.notes.behind_guard.set(state.store.guard_tripped);
        let breakage = state.base.breakage;
        let barrier = breakage != Some(Breakage::TrustLagging);
        let mut snapshot = state.snapshot(self.index(), record, barrier);
        if let Some(breakage) = breakage {
            breakage.bend_snapshot(&mut snapshot);
        }
        let mut seen = fold(&record.state, &record.name_ledger, &snapshot);
        if let Some(breakage) = breakage {
            breakage.bend_seen(record, &mut seen);
        }
        seen
    }

    async fn send_verb(&self, verb: AnyVerb) -> Result<(), Trouble> {
        let sender = match self.work_item {
            Item::Resource(i) | Item::Tombstone(i) => Sender::Resource(i),
            Item::Config => Sender::Config,
        };
        let observed_at = self.notes.observed_at.get();
        let breakage = self.breakage();
        self.send(|in_time| Request { sender, verb, observed_at, in_time, breakage }).await
    }

    /// Commits the decision, if the version still matches.
    fn write(&self, version: Version, decision: &Decision<BentBroker<'_>>) -> Result<(), Trouble> {
        let index = self.index();
        let mut state = self.state.borrow_mut();
        let now = state.now();
        let before = state.store.resources[index].record.clone();
        let breakage = state.base.breakage;
        let (next, event) = match breakage {
            Some(it) => (it.bend_next(&decision.next), it.bend_event(decision.event.clone())),
            None => (decision.next.clone(), decision.event.clone()),
        };
        let version = (!state.is_broken(Breakage::SkipVersion)).then_some(version);
        let promised = state.is_broken(Breakage::NumberEarly).then_some(self.notes.next_number);
        let write = Write { version, next, rows: &decision.rows, event, promised, breakage };
        let turn = self.turn(&mut state, decision.effect.is_none(), decision.wake);
        let written = state.store.commit(index, write, turn, now);
        // A commit whose answer is lost may have been done.
        if written.is_err() && state.store.resources[index].record.version == before.version {
            return written;
        }
        self.returned.set(turn.1.is_some() && written.is_ok());
        state.check_given_up(index, &before, self.notes.behind_guard.get());
        let before = Crossing::from(&before.state);
        state.check_transition_event(index, before);
        state.check_commit(index, before, self.notes.observed_at.get());
        let reason = decision.reason;
        state.say(|it| {
            let row = &it.store.resources[index].record.state;
            let emitted = decision.event.as_ref().map_or("", |event| event.event_type().as_str());
            format!("resource {index} is {} {} ({reason}) {emitted}", row.phase(), row.generation())
        });
        written
    }

    /// The lease that a commit keeps, or gives back if its step is finished by it.
    fn turn(&self, state: &mut State, finished: bool, wake: Wake) -> Turn {
        let mut claim = self.claim;
        if state.is_bent(QueueBend::LoseWakeUp)
            && let Some(entry) = state.store.entry(self.work_item)
        {
            claim.wake_seq = entry.wake_seq;
        }
        let kept = (!finished).then_some((self.work_item, claim));
        (kept, finished.then_some((self.work_item, claim, wake)))
    }
}

/// The broker's rules, bent if a breakage says so.
pub struct BentBroker<'a>(&'a BrokerStep<'a>);

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
        let breakage = self.0.breakage();
        let mut decided = match breakage {
            None => broker.decide(record, seen, now),
            Some(breakage) => broker.decide(&breakage.bend_record(record, seen), seen, now),
        };
        if let Some(breakage) = breakage {
            breakage.bend_decision(&mut decided, now);
            if breakage == Breakage::WaitOnIncomplete && seen.is_incomplete() {
                decided.wake = Wake::OnChange;
            }
        }
        let Decision { next, rows, effect, event, wake, reason } = decided;
        let pair = effect.as_ref().map(|effect| (next.phase(), effect.kind()));
        self.0.decided((&PAIRS, pair), seen, wake);
        Decision { next, rows, effect, event, wake, reason }
    }
}

impl<'a> World<BentBroker<'a>> for BrokerStep<'a> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.pause(Point::Snapshot).await;
        Ok(self.observed(record))
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.send_verb(AnyVerb::Resource(effect.clone())).await
    }
}

impl<'a> Ledger<BentBroker<'a>> for BrokerStep<'a> {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        self.pause(Point::Load).await;
        let state = self.state.borrow();
        Ok(Some(state.store.leased_resource(self.index(), state.now())))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<BentBroker<'a>>,
    ) -> Result<(), Trouble> {
        self.commit_ours(|| self.write(version, decision)).await
    }
}

impl World<Tombstone> for BrokerStep<'_> {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.pause(Point::Snapshot).await;
        Ok(self.observed(record))
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.send_verb(AnyVerb::Resource(effect.clone())).await
    }
}

impl Ledger<Tombstone> for BrokerStep<'_> {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        self.pause(Point::Load).await;
        Ok(Some(self.state.borrow().store.resources[self.index()].record.clone()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<Tombstone>,
    ) -> Result<(), Trouble> {
        self.commit_ours(|| {
            let mut state = self.state.borrow_mut();
            let now = state.now();
            let write = Write {
                version: Some(version),
                next: decision.next.clone(),
                rows: &decision.rows,
                event: None,
                promised: None,
                breakage: state.base.breakage,
            };
            state.say(|_| format!("tombstone {}: {}", self.index(), decision.reason));
            let turn = self.turn(&mut state, decision.effect.is_none(), decision.wake);
            let written = state.store.commit(self.index(), write, turn, now);
            self.returned.set(turn.1.is_some() && written.is_ok());
            written
        })
        .await
    }
}

/// The ProviderConfig's rules, bent if a breakage says so.
pub struct BentConfig<'a>(&'a BrokerStep<'a>);

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
        let reconciler = provider_config::ProviderConfigReconciler { interval: millis(INTERVAL) };
        let mut record = record.clone();
        let users = record.state.users;
        let referred = self.0.state.borrow().store.resources.iter().any(|row| {
            row.record.state.generation_state() == GenerationState::Live
                && row.record.state.phase() != Phase::Deleted
        });
        if referred && self.0.breakage() == Some(Breakage::ConfigFirst) {
            record.state.users = 0;
        }
        let Decision { mut next, rows, effect, event, wake, reason } =
            reconciler.decide(&record, seen, now);
        next.users = users;
        Decision { next, rows, effect, event, wake, reason }
    }
}

impl<'a> World<BentConfig<'a>> for BrokerStep<'a> {
    async fn observe(
        &self,
        record: &Record<ProviderConfig>,
    ) -> Result<provider_config::Observed, Trouble> {
        self.pause(Point::Snapshot).await;
        let snapshot = self.state.borrow_mut().observe_config(record);
        Ok(provider_config::fold(&record.state, &record.name_ledger, &snapshot))
    }

    async fn apply(&self, _: &Record<ProviderConfig>, verb: &Verb) -> Result<(), Trouble> {
        self.send_verb(AnyVerb::Config(verb.clone())).await
    }
}

impl<'a> Ledger<BentConfig<'a>> for BrokerStep<'a> {
    async fn load(&self) -> Result<Option<Record<ProviderConfig>>, Trouble> {
        self.pause(Point::Load).await;
        let state = self.state.borrow();
        Ok(Some(state.store.leased_config(state.now())))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<BentConfig<'a>>,
    ) -> Result<(), Trouble> {
        self.commit_ours(|| {
            let mut state = self.state.borrow_mut();
            let now = state.now();
            let turn = self.turn(&mut state, decision.effect.is_none(), decision.wake);
            let config = &state.store.config.record.state;
            let work_item = ledger::WorkItem::ProviderConfig(config.id);
            let reason = decision.reason.as_str();
            let write = ConfigWrite {
                version,
                before: config.clone(),
                next: decision.next.clone(),
                rows: decision.rows.clone(),
                event: None,
                lease: turn.0.map(|(_, claim)| Stay {
                    item: work_item,
                    claim,
                    reason,
                    finished: false,
                }),
                release: turn.1.map(|(_, claim, wake)| Release {
                    item: work_item,
                    claim,
                    wake,
                    reason,
                }),
            };
            let written = state.store.commit_config(write, now);
            if written.is_ok() {
                self.returned.set(turn.1.is_some());
                let (phase, reason) = (decision.next.phase, decision.reason);
                state.say(|_| format!("the ProviderConfig is {phase} ({reason})"));
            }
            written
        })
        .await
    }
}
