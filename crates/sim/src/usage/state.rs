//! Everything of one simulated run that changes.

use std::collections::BTreeSet;

use usher_domain::usage::attempt::{Attempt, Propagation};
use usher_domain::usage::command;
use usher_kernel::schedule::Entry;
use usher_kernel::{Stopped, Trouble, Uid, Wake};

use crate::base::Base;
use crate::clock::Tick;
use crate::driver_step::DriverStep;
use crate::rng::Rng;
use crate::sim_world::SimWorld;
use crate::usage::admission::{Admitted, DeletionRequest, Pending, Replica};
use crate::usage::breakage::Breakage;
use crate::usage::check::Log;
use crate::usage::driver_step::Notes;
use crate::usage::execute::Request;
use crate::usage::fault::Fault;
use crate::usage::outside::{Object, Outside, number};
use crate::usage::plan::{PAIRS, Plan};
use crate::usage::store::{Item, Queue};

/// Everything that changes.
pub struct State {
    /// What every world has.
    pub base: Base<Self>,
    /// What people request.
    pub plan: Plan,
    /// The cluster.
    pub outside: Outside,
    /// The queue.
    pub queue: Queue,
    /// The webhooks.
    pub replicas: Vec<Replica>,
    /// Denials that are not on record yet.
    pub pending: Vec<Pending>,
    /// Replays that were promised for later, and kept in memory only.
    pub timers: Vec<(Tick, Request)>,
    /// How long a denied deletion is remembered.
    pub lifetime: Tick,
    /// Until when the watch is down.
    pub watch_down_until: Tick,
    /// Until when no webhook answers.
    pub webhook_down_until: Tick,
    /// The highest revision that was seen.
    pub pinned: u64,
    /// What people deleted in the end.
    pub asked: BTreeSet<u64>,
    /// What the checkers remember.
    pub log: Log,
}

impl SimWorld for State {
    type Item = Item;
    type Request = Request;
    type Notes = Notes;
    type Fault = Fault;
    type Breakage = Breakage;

    const NAME: &'static str = "usage";

    fn pairs() -> Vec<String> {
        PAIRS.iter().map(|(phase, effect)| format!("({phase}, {effect})")).collect()
    }

    fn new(seed: u64, breakage: Option<Breakage>, listen: bool) -> Self {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(seed, &mut rng);
        Self::peopled(rng, plan, breakage, listen)
    }

    fn base(&self) -> &Base<Self> {
        &self.base
    }

    fn base_mut(&mut self) -> &mut Base<Self> {
        &mut self.base
    }

    fn items(&self) -> Vec<Item> {
        self.queue.keys().copied().collect()
    }

    fn entry(&mut self, work_item: Item) -> Option<&mut Entry> {
        self.queue.get_mut(&work_item)
    }

    fn notes(&self) -> Notes {
        Notes { observed_at: self.base.tick.into() }
    }

    async fn step(driver: &DriverStep<'_, Self>) -> Result<Wake, Stopped> {
        driver.one_step().await
    }

    fn execute(&mut self, request: &Request) -> Result<(), Trouble> {
        self.serve(request)
    }

    fn swallows(&self, _: &Request) -> bool {
        self.base.tick < self.outside.rebuilt_until
    }

    fn evolve(&mut self) {
        self.go_on();
    }

    fn heal(&mut self) {
        self.calm_down();
    }

    fn restless(&self) -> Vec<&'static str> {
        self.on_its_way()
    }

    fn check_quiet(&mut self) {
        self.check_at_rest();
    }
}

impl State {
    /// An empty world: the caller adds objects and Usages, and requests their deletion.
    pub fn empty(seed: u64, breakage: Option<Breakage>) -> Self {
        Self::peopled(Rng::new(seed), Plan::nothing(seed), breakage, false)
    }

    /// A world of this plan, before anything has happened.
    pub fn peopled(rng: Rng, plan: Plan, breakage: Option<Breakage>, listen: bool) -> Self {
        let (lifetime, replicas) = (plan.lifetime, plan.replicas);
        Self {
            base: Base::new(rng, plan.course, breakage, listen),
            plan,
            outside: Outside::default(),
            queue: Queue::new(),
            replicas: vec![Replica::default(); replicas],
            pending: vec![],
            timers: vec![],
            lifetime,
            watch_down_until: -1,
            webhook_down_until: -1,
            pinned: 0,
            asked: BTreeSet::new(),
            log: Log::default(),
        }
    }

    /// Asks the server to delete an object.
    pub(crate) fn delete(
        &mut self,
        number: u64,
        asked: DeletionRequest<'_>,
    ) -> Result<(), Trouble> {
        let Some(object) = self.outside.by_uid(number) else { return Ok(()) };
        let tick = self.base.tick;
        let theirs = self.outside.blocked_until.get(&object.key);
        if object.deleting.is_none() && theirs.is_some_and(|until| tick < *until) {
            return Err(Trouble::Blocked { what: "Crossplane".to_owned() });
        }
        match self.admit_deletion(number, asked) {
            Admitted::Yes => {}
            Admitted::No(_) => return Err(Trouble::Blocked { what: "admission".to_owned() }),
            Admitted::Unanswered => {
                return Err(Trouble::unavailable("admission".to_owned()));
            }
        }
        if !asked.dry_run {
            self.begin_departure(number, asked.propagation);
        }
        Ok(())
    }

    /// An object is being deleted from now on.
    pub(crate) fn begin_departure(&mut self, number: u64, propagation: Propagation) {
        let tick = self.base.tick;
        let foreground = propagation == Propagation::Foreground;
        let Some(object) = self.outside.by_uid(number) else { return };
        if object.deleting.is_some() {
            if foreground && !object.foreground {
                self.write(number, |it| it.foreground = true);
            }
            return;
        }
        self.check_in_use(number);
        if propagation == Propagation::Orphan {
            let owned = self.outside.objects.iter();
            let owned = owned.filter(|it| it.owners.iter().any(|it| it.uid == number));
            for child in owned.map(|it| it.uid).collect::<Vec<u64>>() {
                self.write(child, |it| it.owners.retain(|it| it.uid != number));
            }
        }
        self.write(number, |it| {
            it.deleting = Some(tick);
            it.foreground = foreground;
        });
        self.say(|it| format!("{} is being deleted", it.named(number)));
    }

    /// What an object is called, for the story.
    pub(crate) fn named(&self, number: u64) -> String {
        let name = self.outside.by_uid(number).map(|it| it.key.name.as_str());
        format!("{} ({number})", name.unwrap_or("another"))
    }

    /// Writes an object.
    pub(crate) fn write(&mut self, number: u64, change: impl FnOnce(&mut Object)) {
        if let Some(object) = self.outside.by_uid_mut(number) {
            change(object);
            self.outside.written(number);
            self.publish_if_usage(number);
        }
    }

    /// Notifies the webhooks of a Usage.
    pub(crate) fn publish_if_usage(&mut self, number: u64) {
        let body = self.outside.by_uid(number).and_then(|it| it.body.as_ref());
        if let Some(kind) = body.map(|it| it.key.kind) {
            self.publish(number, kind);
        }
    }

    /// An object is gone.
    pub(crate) fn vanish(&mut self, number: u64) {
        self.say(|it| format!("{} is gone", it.named(number)));
        self.check_gone(number);
        let removed = self.outside.remove(number);
        self.queue.remove(&Item::Usage(number));
        self.queue.remove(&Item::Stray(number));
        if let Some(body) = removed.and_then(|it| it.body) {
            self.publish(number, body.key.kind);
        }
    }

    /// Writes a denied deletion into the status of a Usage, if that still exists.
    pub(crate) fn record_attempt(&mut self, usage: &Uid, attempt: &Attempt) -> bool {
        let place = number(usage);
        let Some(before) = self.outside.by_uid(place).and_then(Object::usage) else {
            return false;
        };
        let after = command::record(&before, attempt);
        if after != before {
            self.note_owed(&after, attempt);
            self.write(place, |it| {
                if let Some(body) = &mut it.body {
                    body.status = after.status;
                }
            });
            self.say(|it| format!("{} remembers the deletion of {}", it.named(place), attempt.uid));
        }
        true
    }
}
