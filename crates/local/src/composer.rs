//! The composer: makes what a substrate announces, and takes away what nobody owns.
//!
//! Several may work on one world: every change is made under the lock, on the very object that was
//! seen. What one did the other finds done.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use usher_domain::object::id::ResourceId;
use usher_domain::object::name;
use usher_kernel::{Timestamp, Trouble, Uid};

use super::compose::{self, Part, Step};
use super::error::Error;
use super::machines::{Machines, Reclaim, Stir};
use super::object::{Footing, Kind, Object, Owner, Reference, Sort};
use super::registry::{Change, Registry};
use super::render::{SETTINGS_FILE, TOKEN_FILE};
use super::watch::Closeness;
use usher_hosts::supervisor::{PROCESS_LOCK, Unit, Units, Wanted};

/// Who runs the agents of this world's machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agents {
    /// This world: each is a process of this program.
    Process {
        /// The program, called with `agent`.
        program: PathBuf,
        /// How long it may take to end.
        grace: Duration,
    },
    /// Somebody else, who finds their settings and tokens in the records.
    External,
    /// Machines of a fleet.
    Fleet(Fleet),
}

/// A fleet that has machines.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Its machines.
    pub machines: Arc<dyn Machines>,
    /// How long a part waits at most for a free machine before it looks again: a server beside this
    /// one may have let one go.
    pub wait: Duration,
}

impl PartialEq for Fleet {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.machines, &other.machines) && self.wait == other.wait
    }
}

impl Eq for Fleet {}

/// When an object wants to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: something was done.
    Now,
    /// Then.
    At(Timestamp),
    /// When something changes.
    Rest,
    /// When a machine of the fleet is free, and then at the latest.
    Free(Timestamp),
}

/// What became of somebody who may hold a machine without a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stray {
    /// There is nothing to do that something else will not wake.
    Over,
    /// It has this part.
    Part(String),
    /// Its resource is not done with the machine.
    Wanted,
}

/// The composer of one world.
#[derive(Clone, Debug)]
pub struct Composer {
    registry: Registry,
    units: Units,
    agents: Agents,
}

impl Composer {
    /// The composer of these objects and processes.
    pub const fn new(registry: Registry, units: Units, agents: Agents) -> Self {
        Self { registry, units, agents }
    }

    /// Does the next thing with one object as it was just read.
    pub async fn tend(&self, kind: Kind, object: &Object, now: Timestamp) -> Result<Next, Error> {
        match kind {
            // Held by whoever made it.
            Kind::Anchor => Ok(Next::Rest),
            Kind::Substrate => self.tend_substrate(object, now).await,
            Kind::Part => self.tend_part(object, now).await,
            Kind::ProviderConfig | Kind::ExternalSecret => {
                if object.deleting_at.is_none() && self.is_owned(object)? {
                    return Ok(Next::Rest);
                }
                self.registry.change().await?.remove(kind, &object.name, &object.uid)?;
                Ok(Next::Rest)
            }
        }
    }

    /// Marks what belongs to a substrate, under the lock.
    pub(super) fn mark_parts(
        &self,
        change: &Change<'_>,
        substrate: &Object,
        now: Timestamp,
    ) -> Result<(), Error> {
        for (kind, name) in self.registry.owned(Kind::Substrate, &substrate.name)? {
            change.mark_owned(kind, (&name, &substrate.uid), now)?;
        }
        Ok(())
    }

    /// How closely processes must be watched: whose agents somebody else runs ends none.
    pub const fn closeness(&self) -> Closeness {
        match self.agents {
            Agents::Process { .. } => Closeness::Processes,
            Agents::External | Agents::Fleet(_) => Closeness::Records,
        }
    }

    /// What is wanted of the process that is recorded under a part's name.
    pub fn wanted(&self, name: &str, unit: &Unit) -> Result<Wanted, Error> {
        let part = self.registry.get(Kind::Part, name)?;
        let lives = part.is_some_and(|it| it.uid == unit.owner && it.deleting_at.is_none());
        // What was recorded for somebody else to run names no program.
        let ours = !unit.program.as_os_str().is_empty();
        Ok(match (lives, &self.agents) {
            (false, _) => Wanted::Stop,
            (true, Agents::Process { .. }) if ours => Wanted::Run,
            (true, Agents::Process { .. } | Agents::External | Agents::Fleet(_)) => Wanted::Hold,
        })
    }

    async fn tend_substrate(&self, object: &Object, now: Timestamp) -> Result<Next, Error> {
        let owned = self.is_owned(object)?;
        let mut parts = Vec::new();
        for it in object.substrate.iter().flat_map(|it| &it.parts) {
            parts.push((it.clone(), self.part(it)?));
        }
        let part = |it: &Reference| {
            let known = parts.iter().find(|(known, _)| known == it);
            known.map_or(Part::Missing, |(_, part)| part.clone())
        };
        let step = compose::substrate(object, owned, part, now);
        let (kind, it) = (Kind::Substrate, (object.name.as_str(), &object.uid));
        let change = match &step {
            Step::Wait(until) => return Ok(Next::At(*until)),
            Step::Rest => return Ok(Next::Rest),
            Step::Collect | Step::Dissolve | Step::Announce(_) | Step::Make(_) | Step::Turn(_) => {
                self.registry.change().await?
            }
        };
        match step {
            Step::Collect => change.mark(kind, it, now)?,
            Step::Dissolve => {
                self.mark_parts(&change, object, now)?;
                change.remove(kind, it.0, it.1)?;
            }
            Step::Announce(parts) => {
                change.update(kind, it, |it| with(it, |it| it.parts = parts))?;
            }
            Step::Make(part) => {
                change.create(Kind::Part, made(object, &part, now))?;
            }
            Step::Turn(condition) => {
                change.update(kind, it, |it| with(it, |it| it.condition = condition))?;
            }
            Step::Wait(_) | Step::Rest => {}
        }
        Ok(Next::Now)
    }

    fn part(&self, it: &Reference) -> Result<Part, Error> {
        let Some(found) = self.registry.get(Kind::Part, &it.name)? else {
            return Ok(Part::Missing);
        };
        if found.deleting_at.is_some() {
            return Ok(Part::Leaving);
        }
        Ok(match (it.sort, &self.agents) {
            (Sort::Disk, _) => Part::NameState,
            (Sort::Machine, Agents::Process { .. } | Agents::External) => {
                let failure = self.disk(&it.name, Units::failure)?;
                failure.map_or(Part::NameState, |message| Part::Broken { message })
            }
            (Sort::Machine, Agents::Fleet(_)) => match found.footing {
                None | Some(Footing::Waiting) => Part::Coming,
                Some(Footing::Stands) => Part::NameState,
                Some(Footing::Failed { message }) => Part::Broken { message },
            },
        })
    }

    async fn tend_part(&self, object: &Object, now: Timestamp) -> Result<Next, Error> {
        let it = (object.name.as_str(), &object.uid);
        if object.deleting_at.is_none() {
            if !self.is_owned(object)? {
                self.registry.change().await?.mark(Kind::Part, it, now)?;
                return Ok(Next::Now);
            }
            return match &self.agents {
                Agents::Fleet(fleet) => self.have(fleet, object, now).await,
                Agents::Process { .. } | Agents::External => self.boot(object).await,
            };
        }
        if let Agents::Fleet(fleet) = &self.agents
            && !is_given_back(fleet, object).await?
        {
            return Ok(Next::Rest);
        }
        // The record of its process goes first.
        if self.disk(it.0, Units::read)?.is_some() {
            return Ok(Next::Rest);
        }
        self.registry.change().await?.remove(Kind::Part, it.0, it.1)?;
        Ok(Next::Rest)
    }

    /// Sees to it that the machine of a part is had, and notes how it is.
    async fn have(&self, fleet: &Fleet, part: &Object, now: Timestamp) -> Result<Next, Error> {
        let Some(holder) = holder(part) else { return Ok(Next::Rest) };
        let footing = fleet.machines.have(&part.name, holder).await;
        let footing = footing.map_err(|trouble| no_answer(&part.name, trouble))?;
        let next = match &footing {
            Some(Footing::Waiting) => Next::Free(now.after(fleet.wait)),
            Some(Footing::Stands | Footing::Failed { .. }) | None => Next::Rest,
        };
        if part.footing != footing {
            let change = self.registry.change().await?;
            let it = (part.name.as_str(), &part.uid);
            change.update(Kind::Part, it, |it| it.footing = footing)?;
        }
        Ok(next)
    }

    /// Whether the machines of this world are a fleet's.
    pub const fn is_on_fleet(&self) -> bool {
        matches!(self.agents, Agents::Fleet(_))
    }

    /// Everybody who holds a machine of the fleet.
    pub async fn holders(&self) -> Result<Vec<ResourceId>, Error> {
        let Agents::Fleet(Fleet { machines: fleet, .. }) = &self.agents else { return Ok(vec![]) };
        fleet.holders().await.map_err(|trouble| no_answer("machines", trouble))
    }

    /// Looks after a machine that may be held without a part.
    pub async fn reclaim(&self, holder: ResourceId) -> Result<Stray, Error> {
        let Agents::Fleet(Fleet { machines: fleet, .. }) = &self.agents else {
            return Ok(Stray::Over);
        };
        let no_answer = |trouble| no_answer(&holder.to_string(), trouble);
        if !fleet.is_held(holder).await.map_err(no_answer)? {
            return Ok(Stray::Over);
        }
        // What the world says it is was asked before it was looked at.
        let answered = self.registry.pin()?;
        let substrate = name::xr(holder);
        for (kind, name) in self.registry.owned(Kind::Substrate, &substrate)? {
            if let Some(part) = self.registry.get(kind, &name)?
                && self::holder(&part) == Some(holder)
            {
                return Ok(Stray::Part(name));
            }
        }
        // A substrate that stands makes its part again, or goes.
        if self.registry.get(Kind::Substrate, &substrate)?.is_some() {
            return Ok(Stray::Over);
        }
        Ok(match fleet.reclaim(holder, &answered).await.map_err(no_answer)? {
            Reclaim::Over | Reclaim::Leaving => Stray::Over,
            Reclaim::Wanted => Stray::Wanted,
        })
    }

    /// Tells who is worth another look because of the fleet, if there is one.
    pub async fn stirs(&self) -> Result<Option<UnboundedReceiver<Stir>>, Error> {
        let Agents::Fleet(Fleet { machines: fleet, .. }) = &self.agents else { return Ok(None) };
        fleet.stirs().await.map(Some).map_err(|trouble| no_answer("machines", trouble))
    }

    /// Records the process of a machine.
    async fn boot(&self, part: &Object) -> Result<Next, Error> {
        let machine = Sort::from_ledger(&part.ledger_kind) == Some(Sort::Machine);
        if !machine || self.disk(&part.name, Units::read)?.is_some() {
            return Ok(Next::Rest);
        }
        let Some(boot) = self.registry.boot_of(part)? else { return Ok(Next::Rest) };
        let settings = boot.settings.to_string();
        let files = [(SETTINGS_FILE, settings.as_bytes()), (TOKEN_FILE, boot.token.as_bytes())];
        let unit = self.unit(part);
        // Whoever clears away half of a record holds this too.
        let _change = self.registry.change().await?;
        self.disk(&part.name, |units, name| units.record(name, &unit, &files))?;
        Ok(Next::Rest)
    }

    fn unit(&self, part: &Object) -> Unit {
        let (program, grace) = match &self.agents {
            Agents::Process { program, grace } => (program.clone(), *grace),
            Agents::External | Agents::Fleet(_) => (PathBuf::new(), Duration::ZERO),
        };
        let args = ["agent", "--config", SETTINGS_FILE, "--state-dir", ".", "--lock", PROCESS_LOCK];
        Unit {
            owner: part.uid.clone(),
            labels: part.labels.clone(),
            program,
            args: args.map(str::to_owned).into(),
            grace_ms: u64::try_from(grace.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Whether what it belongs to stands. Who belongs to nothing belongs to itself.
    fn is_owned(&self, object: &Object) -> Result<bool, Error> {
        let Some(owner) = &object.owner else { return Ok(true) };
        let found = self.registry.get(owner.kind, &owner.name)?;
        Ok(found.is_some_and(|it| it.uid == owner.uid))
    }

    fn disk<T>(
        &self,
        name: &str,
        ask: impl FnOnce(&Units, &str) -> std::io::Result<T>,
    ) -> Result<T, Error> {
        ask(&self.units, name).map_err(Error::disk(&self.units.folder(name)))
    }
}

fn no_answer(name: &str, trouble: Trouble) -> Error {
    Error::Fleet { name: name.to_owned(), trouble }
}

/// The resource whose machine a part is, if it is a machine.
pub(super) fn holder(part: &Object) -> Option<ResourceId> {
    let sort = Sort::from_ledger(&part.ledger_kind);
    let life = part.label(name::LABEL_RESOURCE_ID).filter(|_| sort == Some(Sort::Machine))?;
    life.parse().ok()
}

/// Sees to it that nothing of a part's machine is left; whether nothing is.
async fn is_given_back(fleet: &Fleet, part: &Object) -> Result<bool, Error> {
    let Some(holder) = holder(part) else { return Ok(true) };
    let given = fleet.machines.give_back(&part.name, holder).await;
    given.map_err(|trouble| no_answer(&part.name, trouble))
}

fn with(object: &mut Object, change: impl FnOnce(&mut super::object::Substrate)) {
    if let Some(substrate) = &mut object.substrate {
        change(substrate);
    }
}

fn made(substrate: &Object, part: &Reference, now: Timestamp) -> Object {
    let (name, uid) = (substrate.name.clone(), substrate.uid.clone());
    Object {
        name: part.name.clone(),
        uid: Uid::new(""),
        ledger_kind: part.sort.ledger_kind(),
        place: substrate.place.clone(),
        labels: substrate.labels.clone(),
        owner: Some(Owner { kind: Kind::Substrate, name, uid }),
        revision: 0,
        created_at: now,
        deleting_at: None,
        manifest: serde_json::Value::Null,
        substrate: None,
        footing: None,
    }
}
