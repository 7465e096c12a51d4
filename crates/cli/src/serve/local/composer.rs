//! The composer: makes what a substrate announces, and takes away what nobody owns.
//!
//! Several may work on one world: every change is made under the lock, on the very object that was
//! seen. What one did the other finds done.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use usher_domain::object::id::ResourceId;
use usher_domain::object::name;
use usher_kernel::{Timestamp, Uid};

use super::compose::{self, Part, Step};
use super::error::Error;
use super::machines::Machines;
use super::object::{Boot, Kind, Object, Owner, Reference, Sort};
use super::registry::{Change, Registry};
use super::render::{SETTINGS_FILE, TOKEN_FILE};
use super::watch::Closeness;
use crate::serve::supervisor::{PROCESS_LOCK, Unit, Units, Wanted};

/// How often a machine of a fleet is looked at while it is on its way.
const LOOK_AFTER: Duration = Duration::from_millis(100);

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
pub struct Fleet(pub Arc<dyn Machines>);

impl PartialEq for Fleet {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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
            let Some(part) = self.registry.get(kind, &name)? else { continue };
            if part.owner.as_ref().is_some_and(|it| it.uid == substrate.uid) {
                change.mark(kind, (&name, &part.uid), now)?;
            }
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
        let failure = match it.sort {
            Sort::Disk => None,
            Sort::Machine => self.disk(&it.name, Units::failure)?,
        };
        Ok(failure.map_or(Part::Standing, |message| Part::Broken { message }))
    }

    async fn tend_part(&self, object: &Object, now: Timestamp) -> Result<Next, Error> {
        let it = (object.name.as_str(), &object.uid);
        if object.deleting_at.is_none() {
            if !self.is_owned(object)? {
                self.registry.change().await?.mark(Kind::Part, it, now)?;
                return Ok(Next::Now);
            }
            return match &self.agents {
                Agents::Fleet(fleet) => have(fleet, object, now).await,
                Agents::Process { .. } | Agents::External => self.boot(object).await,
            };
        }
        if let Agents::Fleet(fleet) = &self.agents
            && !is_given_back(fleet, object).await?
        {
            return Ok(Next::At(now.after(LOOK_AFTER)));
        }
        // The record of its process goes first.
        if self.disk(it.0, Units::read)?.is_some() {
            return Ok(Next::Rest);
        }
        self.registry.change().await?.remove(Kind::Part, it.0, it.1)?;
        Ok(Next::Rest)
    }

    /// Records the process of a machine.
    async fn boot(&self, part: &Object) -> Result<Next, Error> {
        let machine = Sort::from_ledger(&part.ledger_kind) == Some(Sort::Machine);
        if !machine || self.disk(&part.name, Units::read)?.is_some() {
            return Ok(Next::Rest);
        }
        let Some(boot) = self.boot_of(part)? else { return Ok(Next::Rest) };
        let settings = boot.settings.to_string();
        let files = [(SETTINGS_FILE, settings.as_bytes()), (TOKEN_FILE, boot.token.as_bytes())];
        let unit = self.unit(part);
        // Whoever clears away half of a record holds this too.
        let _change = self.registry.change().await?;
        self.disk(&part.name, |units, name| units.record(name, &unit, &files))?;
        Ok(Next::Rest)
    }

    /// What the machine is started with, from the very substrate that owns it.
    fn boot_of(&self, part: &Object) -> Result<Option<Boot>, Error> {
        let Some(owner) = &part.owner else { return Ok(None) };
        let found = self.registry.get(owner.kind, &owner.name)?;
        let own = found.filter(|it| it.uid == owner.uid);
        Ok(own.and_then(|it| it.substrate).and_then(|it| it.boot))
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

/// The resource whose machine a part is, if it is a machine.
fn holder(part: &Object) -> Option<ResourceId> {
    let sort = Sort::from_ledger(&part.ledger_kind);
    let life = part.label(name::LABEL_RESOURCE_ID).filter(|_| sort == Some(Sort::Machine))?;
    life.parse().ok()
}

/// Sees to it that the machine of a part is had.
async fn have(Fleet(fleet): &Fleet, part: &Object, now: Timestamp) -> Result<Next, Error> {
    let Some(holder) = holder(part) else { return Ok(Next::Rest) };
    let stands = fleet.have(&part.name, holder).await;
    let stands = stands.map_err(|trouble| Error::Fleet { name: part.name.clone(), trouble })?;
    Ok(if stands { Next::Rest } else { Next::At(now.after(LOOK_AFTER)) })
}

/// Sees to it that nothing of a part's machine is left; whether nothing is.
async fn is_given_back(Fleet(fleet): &Fleet, part: &Object) -> Result<bool, Error> {
    let Some(holder) = holder(part) else { return Ok(true) };
    let given = fleet.give_back(holder).await;
    given.map_err(|trouble| Error::Fleet { name: part.name.clone(), trouble })
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
    }
}
