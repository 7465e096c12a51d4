//! Runs the composer and the supervisor of one world, woken by what changes in it.
//!
//! A keeper may die at any point, and several may keep one world.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::sleep;
use usher_kernel::Timestamp;

use super::agenda::Agenda;
use super::compose;
use super::composer::{Agents, Composer, Next, Stray, holder};
use super::error::Error;
use super::machines::Stir;
use super::object::Kind;
use super::on_fleet::{OnFleet, holder_in};
use super::registry::Registry;
use super::round::Round;
use super::watch::{Item, News, Touched, Watch};
use usher_hosts::clock;
use usher_hosts::supervisor::{Outcome, Supervisor, Units, Wanted};

/// How soon something that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);
/// How often everything is looked at although nothing changed: the net under the watch.
const RELIST_AFTER: Duration = Duration::from_mins(10);
/// How often the processes are looked at whose records could not be watched.
const UNWATCHED_AFTER: Duration = Duration::from_secs(2);
/// How long, and how often, a process that another keeper has is looked at after a change.
const ENDING_MAX: Duration = Duration::from_secs(1);
const ENDING_LOOK: Duration = Duration::from_millis(50);
/// How soon a fleet is asked again that did not answer.
const AWAY_AFTER: Duration = Duration::from_secs(2);
/// How much is done before the watch is read again.
const BATCH: usize = 64;
/// How much is done with one object before somebody else has a turn.
const STEPS_MAX: usize = 8;

/// Keeps one world going.
#[derive(Debug)]
pub struct Keeper {
    composer: Composer,
    registry: Registry,
    units: Units,
    supervisor: Supervisor,
    due: Agenda,
    /// The round over all there is, while one is under way, and when it goes on.
    round: Option<Round>,
    round_at: Timestamp,
    /// When the records of processes changed that another keeper has.
    changed: BTreeMap<String, Timestamp>,
    fleet: OnFleet,
}

impl Keeper {
    /// A keeper of the world below `root`; of a new one if nothing is there.
    pub async fn open(root: PathBuf, agents: Agents) -> Result<Self, Error> {
        let (registry, units) = super::ground(root).await?;
        let composer = Composer::new(registry.clone(), units.clone(), agents);
        Ok(Self::new(composer, registry, units))
    }

    /// A keeper of these objects and processes.
    pub fn new(composer: Composer, registry: Registry, units: Units) -> Self {
        let supervisor = Supervisor::new(units.clone());
        Self {
            composer,
            registry,
            units,
            supervisor,
            due: Agenda::default(),
            round: None,
            round_at: Timestamp::ZERO,
            changed: BTreeMap::new(),
            fleet: OnFleet::default(),
        }
    }

    /// Keeps the world until it is told to stop. The processes go on without it. What could not be
    /// done is told, with the item if it was about one, and tried again.
    pub async fn run(
        mut self,
        mut stop: oneshot::Receiver<()>,
        tell: impl Fn(Option<&Item>, &Error) + Send,
    ) {
        loop {
            tokio::select! {
                biased;
                _ = &mut stop => return,
                why = self.attend(&tell) => tell(None, &why),
            }
            tokio::select! {
                biased;
                _ = &mut stop => return,
                () = sleep(RETRY_AFTER) => {}
            }
        }
    }

    /// Follows the watch for as long as there is one.
    async fn attend(&mut self, tell: &(impl Fn(Option<&Item>, &Error) + Send)) -> Error {
        let (registry, units) = (self.registry.clone(), self.units.clone());
        let mut watch = match Watch::new(registry, units, self.composer.closeness()) {
            Ok(watch) => watch.of_items(),
            Err(why) => return why,
        };
        // Before the first listing, so that nothing is missed in between.
        let mut stirs = match self.composer.stirs().await {
            Ok(stirs) => stirs,
            Err(why) => return why,
        };
        let mut relist_at = clock::now().after(RELIST_AFTER);
        loop {
            let now = clock::now();
            if now >= relist_at {
                relist_at = now.after(RELIST_AFTER);
                watch.relist();
            }
            for name in watch.unwatched() {
                self.due.later(Item::Unit(name.to_owned()), now.after(UNWATCHED_AFTER));
            }
            let round = self.round.as_ref().map(|_| self.round_at.max(now));
            let next = round.into_iter().chain(self.due.next()).chain(self.fleet.next()).min();
            let next = next.unwrap_or(relist_at).min(relist_at);
            tokio::select! {
                biased;
                news = watch.next() => match news {
                    Ok(News::All) => self.begin_round(clock::now()),
                    Ok(News::Changes(touched)) => self.touch(&touched, clock::now()),
                    Err(why) => return why,
                },
                stir = next_of(&mut stirs) => match stir {
                    Some(stir) => self.stir(stir, clock::now()),
                    // Whoever told is gone: another one tells from now on.
                    None => match self.composer.stirs().await {
                        Ok(again) => {
                            stirs = again;
                            self.begin_round(clock::now());
                        }
                        Err(why) => return why,
                    },
                },
                () = sleep(next.since(now)) => {}
            }
            let now = clock::now();
            if let Err(why) = self.go_round(now) {
                return why;
            }
            self.tend_due(tell, now).await;
            self.tend_strays(tell, now).await;
        }
    }

    /// Looks after whoever is worth it because of the fleet.
    fn stir(&mut self, stir: Stir, now: Timestamp) {
        match stir {
            Stir::Holder(holder) => match self.fleet.part_of(holder).map(part) {
                Some(part) => self.due.soon(part, now),
                None => self.fleet.note_stray(holder, now),
            },
            Stir::Waiting => self.call(now),
        }
    }

    /// Lets whoever waits longest look whether a machine is free.
    fn call(&mut self, now: Timestamp) {
        if let Some(name) = self.fleet.call() {
            self.due.soon(part(&name), now);
        }
    }

    async fn tend_strays(
        &mut self,
        tell: &(impl Fn(Option<&Item>, &Error) + Send),
        now: Timestamp,
    ) {
        if self.fleet.census_at.is_some_and(|at| at <= now) {
            match self.composer.holders().await {
                Ok(holders) => {
                    self.fleet.census_at = None;
                    self.fleet.note_holders(holders, now);
                }
                Err(why) => {
                    self.fleet.census_at = Some(now.after(AWAY_AFTER));
                    tell(None, &why);
                }
            }
        }
        for holder in self.fleet.due_strays(now) {
            match self.composer.reclaim(holder).await {
                Ok(Stray::Over) => self.fleet.rest(holder),
                Ok(Stray::Part(name)) => {
                    self.fleet.rest(holder);
                    self.due.soon(part(&name), now);
                }
                Ok(Stray::Wanted) => self.fleet.put_off(holder, now),
                Err(why) => {
                    tell(None, &why);
                    self.fleet.put_off(holder, now);
                }
            }
        }
    }

    /// Looks after all there is, and whatever runs although nothing is recorded of it.
    fn begin_round(&mut self, now: Timestamp) {
        for name in self.supervisor.tended() {
            self.due.soon(Item::Unit(name.to_owned()), now);
        }
        self.round = Some(Round::new());
    }

    /// Takes the next piece of a round, once nothing else is due.
    fn go_round(&mut self, now: Timestamp) -> Result<(), Error> {
        let Some(round) = &mut self.round else { return Ok(()) };
        // Whoever waits for the fleet, as the round does, does not hold it up for ever.
        let is_due = |at: Timestamp| at <= now && at != self.round_at;
        if now < self.round_at || self.due.next().is_some_and(is_due) {
            return Ok(());
        }
        for _ in 0..BATCH {
            let Some(item) = round.next(&self.registry, &self.units)? else {
                // Every part was met by now but those that came meanwhile, and they are told.
                self.fleet.census_at = self.composer.is_on_fleet().then_some(now);
                self.round = None;
                return Ok(());
            };
            if let Item::Unit(name) = &item {
                self.changed.insert(name.clone(), now);
            }
            self.due.soon(item, now);
        }
        Ok(())
    }

    fn touch(&mut self, touched: &[Touched], now: Timestamp) {
        for it in touched {
            self.due.soon(it.item.clone(), now);
            match &it.item {
                Item::Object(Kind::Part, name) => {
                    self.touch_announcer(name, now);
                    self.due.soon(Item::Unit(name.clone()), now);
                }
                Item::Unit(name) => {
                    // What its process says of itself is news for the substrate.
                    self.touch_announcer(name, now);
                    self.due.soon(Item::Object(Kind::Part, name.clone()), now);
                    self.changed.insert(name.clone(), now);
                }
                Item::Object(
                    kind @ (Kind::Anchor | Kind::Substrate | Kind::ProviderConfig),
                    name,
                ) => {
                    // Notes that cannot be read are read again when everything is listed.
                    for (kind, name) in self.registry.owned(*kind, name).unwrap_or_default() {
                        self.due.soon(Item::Object(kind, name), now);
                    }
                }
                Item::Object(Kind::ExternalSecret, _) => {}
            }
        }
    }

    /// Looks after the substrate that announced a part, which may be gone.
    fn touch_announcer(&mut self, part: &str, now: Timestamp) {
        if let Some(name) = compose::announcer(part) {
            self.due.soon(Item::Object(Kind::Substrate, name.to_owned()), now);
        }
    }

    async fn tend_due(&mut self, tell: &(impl Fn(Option<&Item>, &Error) + Send), now: Timestamp) {
        for item in self.due.take(now, BATCH) {
            let next = match &item {
                Item::Object(kind, name) => self.tend_object(*kind, name, now).await,
                Item::Unit(name) => self.tend_unit(name, now),
            };
            match next {
                Ok(Next::Now) => self.due.soon(item, now),
                Ok(Next::At(at)) => self.due.soon(item, at),
                Ok(Next::Rest) => {}
                Ok(Next::Free(at)) => {
                    if let Item::Object(Kind::Part, name) = &item {
                        self.fleet.wait(name);
                    }
                    self.due.soon(item, at);
                }
                Err(why @ Error::Fleet { .. }) => {
                    tell(Some(&item), &why);
                    self.due.soon(item, now.after(AWAY_AFTER));
                    // Whoever is met next would be told the same.
                    self.round_at = now.after(AWAY_AFTER);
                }
                Err(why) => {
                    tell(Some(&item), &why);
                    self.due.soon(item, now.after(RETRY_AFTER));
                }
            }
        }
    }

    async fn tend_object(&mut self, kind: Kind, name: &str, now: Timestamp) -> Result<Next, Error> {
        // Steps that follow at once are done before the watch tells of the first one.
        for _ in 0..STEPS_MAX {
            let Some(object) = self.registry.get(kind, name)? else {
                self.note_gone(kind, name, now);
                return Ok(Next::Rest);
            };
            if self.composer.is_on_fleet()
                && let Some(holder) = holder(&object)
            {
                self.fleet.note_part(holder, name);
            }
            match self.composer.tend(kind, &object, now).await? {
                Next::Now => {}
                next @ Next::Free(_) => return Ok(next),
                next @ (Next::At(_) | Next::Rest) => {
                    self.pass_on(name, now);
                    return Ok(next);
                }
            }
        }
        Ok(Next::Now)
    }

    /// Whoever was called and needs nothing lets the next one look.
    fn pass_on(&mut self, name: &str, now: Timestamp) {
        if self.fleet.wait_no_more(name) {
            self.call(now);
        }
    }

    /// A machine may still be held for what is gone.
    fn note_gone(&mut self, kind: Kind, name: &str, now: Timestamp) {
        if !self.composer.is_on_fleet() {
            return;
        }
        match kind {
            Kind::Part => {
                self.pass_on(name, now);
                self.fleet.note_gone(name, now);
            }
            Kind::Substrate => {
                if let Some(holder) = holder_in(name) {
                    self.fleet.note_stray(holder, now);
                }
            }
            Kind::Anchor | Kind::ProviderConfig | Kind::ExternalSecret => {}
        }
    }

    fn tend_unit(&mut self, name: &str, now: Timestamp) -> Result<Next, Error> {
        let folder = self.units.folder(name);
        let wanted = match self.units.read(name) {
            Ok(Some(unit)) => self.composer.wanted(name, &unit)?,
            Ok(None) => Wanted::Stop,
            Err(why) if why.kind() == io::ErrorKind::InvalidData => Wanted::Stop,
            Err(why) => return Err(Error::disk(&folder)(why)),
        };
        let outcome = self.supervisor.tend(name, wanted, now).map_err(Error::disk(&folder))?;
        let changed = self.changed.remove(name);
        Ok(match outcome {
            Outcome::Elsewhere => match changed {
                // It may be the end of that keeper, which is seen a moment before its lock is free.
                Some(at) if now < at.after(ENDING_MAX) => {
                    self.changed.insert(name.to_owned(), at);
                    Next::At(now.after(ENDING_LOOK))
                }
                Some(_) | None => Next::Rest,
            },
            Outcome::Resting => Next::Rest,
            Outcome::Waiting(until) => Next::At(until),
            Outcome::Gone => {
                self.due.soon(Item::Object(Kind::Part, name.to_owned()), now);
                Next::Rest
            }
        })
    }
}

fn part(name: &str) -> Item {
    Item::Object(Kind::Part, name.to_owned())
}

/// The next that is told; never anything where nobody tells.
async fn next_of(stirs: &mut Option<UnboundedReceiver<Stir>>) -> Option<Stir> {
    match stirs {
        Some(stirs) => stirs.recv().await,
        None => std::future::pending().await,
    }
}
