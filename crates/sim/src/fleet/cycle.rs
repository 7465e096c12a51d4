//! What a shard does by itself: it lists, receives roll-ups, plans, and writes aims into rows.

use std::collections::BTreeSet;

use usher_domain::fleet::accept::{Raw, Report};
use usher_domain::fleet::aggregate::Target;
use usher_domain::fleet::facts::CommandState;
use usher_domain::fleet::ident::MachineId;
use usher_domain::fleet::list::{Credence, weigh};
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{
    Cause, Circumstances, Judged, Need, PlanConfig, RawNeed, RawRequirement, Switch, plan,
};
use usher_domain::fleet::refusal::Refusal;
use usher_domain::fleet::snapshot::Source;
use usher_domain::object::authority::MassDeletionGuard;

use crate::clock::Tick;
use crate::fleet::breakage::Breakage;
use crate::fleet::fault::Fault;
use crate::fleet::outside::kind_name;
use crate::fleet::plan::Asks;
use crate::fleet::state::{State, cluster};
use crate::fleet::store::{List, Message, Write, Written};
use crate::sim_world::SimWorld as _;

/// How often a shard plans and lists.
const CYCLE: Tick = 20;
/// How often a cluster rolls up its demand.
const ROLL_UP: Tick = 15;
/// By how much a grace is shorter in simulated time.
const GRACE_DIVISOR: u32 = 10_000;

impl State {
    /// One tick of every shard.
    pub(crate) fn run_shards(&mut self) {
        for shard in 0..self.store.shards.len() {
            let offset = Tick::try_from(shard).unwrap_or(0) * 7;
            self.settle_tokens(shard);
            self.deliver_list(shard);
            self.write_aims(shard);
            if (self.base.tick + offset) % CYCLE == 0 {
                self.begin_list(shard);
                self.plan_cycle(shard);
            }
        }
        if self.base.tick % ROLL_UP == 3 {
            (0..self.demand.len()).for_each(|it| self.roll_up(it));
        }
    }

    /// An effect whose sender is gone cannot arrive any more.
    fn settle_tokens(&mut self, shard: usize) {
        let tick = self.base.tick;
        let due = self.store.shards[shard].reserved.iter().filter(|it| *it.1 <= tick);
        let due: Vec<_> = due.map(|it| *it.0).collect();
        for token in due {
            let waits = self.store.rows.iter().any(|row| {
                let fields = row.record.state.fields();
                fields.command == CommandState::Recorded && fields.token == token
            });
            if !waits {
                self.store.shards[shard].issuer.settle(token);
                self.store.shards[shard].reserved.remove(&token);
            }
        }
    }

    fn begin_list(&mut self, shard: usize) {
        let down = self.base.tick < self.outside.down_until;
        let failed = down || self.injects(Fault::ListFails, 80);
        if failed || self.store.shards[shard].list.is_some() {
            return;
        }
        let empty = self.base.tick < self.outside.empty_until;
        let shown = self.outside.machines.iter().filter(|it| !it.removed && !empty);
        let mut records: Vec<Raw> = shown.map(super::outside::Actual::show).collect();
        let cut = records.len() > 1 && self.injects(Fault::CutList, 80);
        if cut {
            let keep = self.base.rng.below(records.len() as u64);
            records.truncate(usize::try_from(keep).unwrap_or(0));
        }
        // A provider that cuts a list does not always say so. Two lies about one machine, by a list
        // and by the answer about it, count as the provider's word that it is gone: only one of
        // them is simulated at a time.
        let lies = self.base.rng.percent(50) && self.outside.empty_until <= self.base.tick;
        let whole = !cut || lies;
        let late = self.injects(Fault::LateList, 150);
        let lag = if late { self.base.rng.between(15, 90) } else { self.base.rng.between(0, 4) };
        let (at, stamp) = (self.base.tick + lag, self.store.shards[shard].issuer.stamp());
        self.store.shards[shard].list =
            Some(List { begun: self.base.tick, at, stamp, records, whole });
    }

    fn deliver_list(&mut self, shard: usize) {
        let due = self.store.shards[shard].list.take_if(|it| it.at <= self.base.tick);
        let Some(list) = due else { return };
        let mine: Vec<usize> = (0..self.store.rows.len())
            .filter(|it| self.store.owner(*it) == shard)
            .filter(|it| self.store.rows[*it].record.state.phase() != Phase::Gone)
            .collect();
        let recorded: BTreeSet<MachineId> =
            mine.iter().map(|it| self.store.rows[*it].record.state.id().clone()).collect();
        let listed: BTreeSet<MachineId> =
            list.records.iter().filter_map(|it| it.id.parse().ok()).collect();
        // After the fault phase people confirm what their shards do not dare to believe.
        let guard = self.in_fault_phase().then(MassDeletionGuard::default);
        let mut weighed = weigh(&recorded, &listed, list.whole, guard);
        if self.is_broken(Breakage::TrustEmptyList) {
            weighed.credence = Credence::Whole;
            weighed.missing = recorded.difference(&listed).cloned().collect();
        }
        let entry = &mut self.store.shards[shard];
        entry.list_believed = weighed.credence == Credence::Whole;
        if entry.list_believed {
            entry.listed = listed;
        }
        for raw in &list.records {
            self.read_record(shard, raw, list.stamp);
        }
        for id in weighed.missing {
            if let Some(row) = self.store.row_of(id.as_str()) {
                let message = Message { source: Source::List, stamp: list.stamp, raw: None };
                self.post(row, message);
            }
        }
    }

    /// A record of a list goes to its row if it says something new, or founds one.
    fn read_record(&mut self, shard: usize, raw: &Raw, stamp: usher_domain::fleet::issue::Token) {
        let Some(machine) = self.outside.find(&raw.id) else { return };
        let row = self.store.row_of(&raw.id);
        let row = row.filter(|it| self.store.rows[*it].record.state.phase() != Phase::Gone);
        let Some(row) = row else {
            self.adopt_record(machine, raw, shard);
            return;
        };
        if self.store.owner(row) != shard {
            if self.is_broken(Breakage::AdoptTwice) {
                self.adopt_record(machine, raw, shard);
            }
            return;
        }
        let state = &self.store.rows[row].record.state;
        let report = Report::read(raw).ok();
        let same = report.is_some_and(|it| {
            let bound = state.state().binding().map(|it| &it.cluster);
            it.phase() == state.phase()
                && (!it.phase().is_bound() || it.cluster() == bound)
                && state.fields().offer.after(it.offer().ok()) == state.fields().offer
        });
        let open =
            state.fields().command != CommandState::None || state.fields().disputed.is_some();
        if (!same || open) && !self.is_broken(Breakage::DropLists) {
            let message = Message { source: Source::List, stamp, raw: Some(raw.clone()) };
            self.post(row, message);
        }
    }

    fn post(&mut self, row: usize, message: Message) {
        let now = self.now();
        self.store.rows[row].messages.retain(|it| it.source != Source::List);
        self.store.rows[row].messages.push(message);
        self.store.wake(row, now);
    }

    fn roll_up(&mut self, number: usize) {
        let tick = self.base.tick;
        if self.silent_until.get(&number).is_some_and(|until| tick < *until) {
            return;
        }
        let shard = number % self.store.shards.len().max(1);
        // What is said three times, by mistake or not, is not taken for a mistake.
        let held = self.roll_ups.get(&number).map_or(0, |it| it.held);
        let collapsed = self.collapsing.remove(&number) && held < 2;
        let unreadable = self.unreadable_until.get(&number).is_some_and(|until| tick < *until);
        let asks = if collapsed { vec![] } else { self.demand[number].clone() };
        let mut rows: Vec<_> = asks.iter().map(|it| Need::read(&need(*it))).collect();
        rows.extend(unreadable.then_some(Err(Refusal::NeedEmpty)));
        let id = cluster(number);
        let times = if self.base.breakage == Some(Breakage::RollUpUnguarded) { 3 } else { 1 };
        let fleet = &mut self.store.shards[shard].fleet;
        let judged = (0..times).map(|_| fleet.hear(&id, rows.clone())).last();
        let entry = self.roll_ups.entry(number).or_default();
        entry.held = if judged == Some(Judged::Held) { held + 1 } else { 0 };
        entry.believed = !unreadable && (!collapsed || entry.accepted.len() < 10);
        if judged == Some(Judged::Accepted) {
            entry.accepted = asks;
        }
    }

    fn plan_cycle(&mut self, shard: usize) {
        let (tick, now) = (self.base.tick, self.now());
        let store_up = self.store.down_until <= tick;
        let switch = if tick < self.switch.1 { self.switch.0 } else { Switch::Run };
        let ignores = self.is_broken(Breakage::PauseIgnored);
        let percent = if self.is_broken(Breakage::CapIgnored) { 100 } else { 5 };
        if self.is_broken(Breakage::ReclaimUnheard) {
            for number in 0..self.demand.len() {
                let reading = self.store.shards[shard].fleet.hears(&cluster(number));
                if number % self.store.shards.len() == shard && !reading {
                    self.store.shards[shard].fleet.hear(&cluster(number), vec![]);
                }
            }
        }
        let at = Circumstances {
            now,
            store_up,
            list_believed: self.store.shards[shard].list_believed,
            switch: if ignores { Switch::Run } else { switch },
            config: PlanConfig { reclaim_percent: percent },
        };
        let made = plan(&self.store.shards[shard].fleet, &at);
        self.check_plan(shard, &made, switch);
        let epoch = self.store.shards[shard].epoch;
        for aim in &made.aims {
            let row = aim.slot.0 as usize;
            let machine = &self.store.rows[row].record.state;
            let wanted = self.store.shards[shard].fleet.wanted(aim, machine);
            let Some(mut wanted) = wanted else { continue };
            wanted.grace /= GRACE_DIVISOR;
            if aim.cause == Cause::Preempt && self.base.breakage == Some(Breakage::ForgetVictims) {
                wanted.target = Target::Unbound;
            }
            let version = self.store.rows[row].record.version;
            let at = tick + self.base.rng.between(0, 6);
            let (cause, goal) = (aim.cause, aim.goal);
            let taker = self.store.shards[shard].fleet.binding_of(goal).cloned();
            let taker = taker.filter(|_| cause == Cause::Preempt);
            let aim = Written { at, epoch, row, version, wanted, cause, taker };
            self.store.shards[shard].aims.push(aim);
        }
    }

    /// Writes aims whose rows have not moved since they were planned upon.
    fn write_aims(&mut self, shard: usize) {
        let (tick, now) = (self.base.tick, self.now());
        let (due, later) = std::mem::take(&mut self.store.shards[shard].aims)
            .into_iter()
            .partition(|it: &Written| it.at <= tick);
        self.store.shards[shard].aims = later;
        for Written { epoch, row, version, wanted, cause, taker, .. } in due as Vec<Written> {
            let holds = self.store.down_until <= tick && self.store.shards[shard].epoch == epoch;
            let next = self.store.rows[row].record.state.aimed(wanted);
            let written = holds
                && next != self.store.rows[row].record.state
                && self.store.write(row, Some(version), Write::of(next)).is_ok();
            if written {
                self.taken_for.remove(&row);
                self.taken_for.extend(taker.map(|it| (row, it)));
                self.reindex(row);
                self.store.wake(row, now);
                self.say(|it| {
                    let wanted = &it.store.rows[row].record.state.wanted();
                    let cluster = wanted.cluster().map_or("none", |it| it.as_str());
                    format!("row {row} is aimed at {cluster} ({cause})")
                });
            }
        }
    }
}

/// A need on the wire; a machine has four processors.
pub(crate) fn need(asks: Asks) -> RawNeed {
    let requirement = asks.kind.map(|kind| RawRequirement {
        key: "node.kubernetes.io/instance-type".to_owned(),
        operator: 1,
        values: vec![kind_name(kind).to_owned()],
    });
    RawNeed {
        requirements: requirement.into_iter().collect(),
        aggregate: [("cpu".to_owned(), (asks.machines * 4).to_string())].into(),
        priority: asks.priority,
        ..RawNeed::default()
    }
}
