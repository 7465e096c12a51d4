//! What one look at this world brings back: answers, not judgements.

use std::collections::BTreeMap;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::{self, Found, ProviderConfig};
use usher_domain::broker::snapshot::{
    self, ComposedSnapshot, ComposedState, Guard, Reading, Snapshot, XrObject,
};
use usher_domain::object::name;
use usher_kernel::{Generation, Name, NameLedger, Record, Uid};

use super::error::Error;
use super::object::{Condition, Kind, Object, Sort};
use super::registry::Registry;
use super::render;
use usher_domain::broker::world::{Known, Trust};
use usher_hosts::supervisor::{Holder, Units};

/// Who answers.
const BY: &str = "local";

/// Where a look looks.
#[derive(Clone, Copy)]
pub(super) struct Eyes<'a> {
    pub(super) registry: &'a Registry,
    pub(super) units: &'a Units,
}

impl Eyes<'_> {
    /// One look at a resource. What the world says it is was asked before.
    pub(super) fn resource(self, record: &Record<Resource>, known: Known) -> Snapshot {
        let resource = &record.state;
        let xr = self.xr(record);
        let composed = self.composed(record, xr.as_ref().ok().and_then(Option::as_ref));
        let (composed, composed_listed) = match composed {
            Ok(composed) => (composed, Ok(())),
            Err(why) => (self.open_rows(record), Err(why.unknown())),
        };
        let guard = |it: &Option<Object>| {
            let used = it.as_ref().is_some_and(|it| it.labels.contains_key(name::LABEL_IN_USE));
            if used { Guard::Another } else { Guard::None }
        };
        let protection = xr.as_ref().map(guard).map_err(Error::unknown);
        let xr = match xr {
            Ok(found) => {
                Ok(found.map(|it| xr_object(&it, render::is_drifted(&it, record, &known))))
            }
            Err(why) => Err(why.unknown()),
        };
        let Known { trust, config_ready, tokens, peers, tags: _ } = known;
        Snapshot {
            by: BY.to_owned(),
            at: trust.now,
            authority: trust.authority,
            guard_tripped: trust.guard_tripped,
            namespace_ready: Ok(true),
            anchors: self.anchors(|it| resource.anchor_name(it).name, resource.generation()),
            config_ready,
            xr,
            composed,
            composed_listed,
            tokens,
            peers,
            protection,
        }
    }

    /// One look at a ProviderConfig.
    pub(super) fn config(
        self,
        record: &Record<ProviderConfig>,
        trust: Trust,
    ) -> provider_config::Snapshot {
        let config = &record.state;
        let found = |kind, wanted: &Name| match self.named(kind, wanted) {
            Ok(found) => Ok(found.map(|it| Found {
                drifted: render::is_config_drifted(&it, kind, record),
                revision: it.revision.to_string(),
                object: it.looked_at(),
            })),
            Err(why) => Err(why.unknown()),
        };
        let generation = config.generation;
        provider_config::Snapshot {
            by: BY.to_owned(),
            at: trust.now,
            authority: trust.authority,
            guard_tripped: trust.guard_tripped,
            namespace_ready: Ok(true),
            anchors: self.anchors(|it| config.anchor_name(it).name, generation),
            config: found(Kind::ProviderConfig, &config.config_name(generation)),
            external_secret: found(Kind::ExternalSecret, &config.external_secret_name(generation)),
            // Nobody materialises it here.
            secret: Ok(None),
        }
    }

    fn xr(self, record: &Record<Resource>) -> Result<Option<Object>, Error> {
        self.named(Kind::Substrate, &record.state.xr_name(record.state.generation()))
    }

    /// What stands under a name, whoever made it.
    fn named(self, kind: Kind, wanted: &Name) -> Result<Option<Object>, Error> {
        self.registry.get(kind, &wanted.name)
    }

    fn anchors(
        self,
        name: impl Fn(Generation) -> String,
        last: Generation,
    ) -> Reading<BTreeMap<Generation, snapshot::Object>> {
        let mut found = BTreeMap::new();
        for generation in (Generation::FIRST.0..=last.0).map(Generation) {
            match self.registry.get(Kind::Anchor, &name(generation)) {
                Ok(Some(it)) => {
                    found.insert(generation, it.looked_at());
                }
                Ok(None) => {}
                Err(why) => return Err(why.unknown()),
            }
        }
        Ok(found)
    }

    /// Everything the XR announces, everything labelled as its part, and every open row.
    fn composed(
        self,
        record: &Record<Resource>,
        xr: Option<&Object>,
    ) -> Result<Vec<ComposedSnapshot>, Error> {
        let current = record.state.generation();
        let mut wanted: BTreeMap<Name, bool> = BTreeMap::new();
        let mut read: BTreeMap<String, Object> = BTreeMap::new();
        for (name, object) in self.labelled(record)? {
            read.insert(name.name.clone(), object);
            wanted.entry(name).or_default();
        }
        if let Some(xr) = xr.filter(|it| is_ours(it, &record.state))
            && let Some(substrate) = &xr.substrate
        {
            let generation = generation_of(record, Some(&xr.uid)).unwrap_or(current);
            for it in &substrate.parts {
                let name = part_name(&it.sort.ledger_kind(), &xr.place, &it.name, generation);
                wanted.insert(name, true);
            }
        }
        for name in open_parts(&record.name_ledger) {
            wanted.entry(name.clone()).or_default();
        }
        let look = |(name, referred): (Name, bool)| {
            let reading = match read.get(&name.name) {
                Some(found) => Ok(stands(record, &name, found)),
                None => self.part(record, &name).map_err(|why| why.unknown()),
            };
            ComposedSnapshot { plural: None, name, reading, referred }
        };
        Ok(wanted.into_iter().map(look).collect())
    }

    /// The parts with our labels.
    fn labelled(self, record: &Record<Resource>) -> Result<Vec<(Name, Object)>, Error> {
        let resource = &record.state;
        let mut found = Vec::new();
        for (kind, name) in self.registry.owned(Kind::Substrate, &resource.pinned().xr_name)? {
            // One that cannot be read may be ours and new.
            let Some(it) = self.registry.get(kind, &name)? else { continue };
            if is_ours(&it, resource) {
                let owner = it.owner.as_ref().map(|it| &it.uid);
                let generation = generation_of(record, owner).unwrap_or(resource.generation());
                found.push((part_name(&it.ledger_kind, &it.place, &name, generation), it));
            }
        }
        Ok(found)
    }

    /// What is asked for if the parts cannot be listed.
    fn open_rows(self, record: &Record<Resource>) -> Vec<ComposedSnapshot> {
        let look = |name: &Name| ComposedSnapshot {
            plural: None,
            name: name.clone(),
            reading: self.part(record, name).map_err(|why| why.unknown()),
            referred: false,
        };
        open_parts(&record.name_ledger).map(look).collect()
    }

    /// A part is absent if there is no object and nobody holds the lock of its process.
    fn part(self, record: &Record<Resource>, name: &Name) -> Result<ComposedState, Error> {
        // Asked first: a process that ends after the question had a part until then.
        let running = self.running(name)?;
        let Some(it) = self.registry.get(Kind::Part, &name.name)? else {
            return Ok(running.unwrap_or(ComposedState::Absent));
        };
        Ok(stands(record, name, &it))
    }

    /// The process of a part, if one runs.
    fn running(self, name: &Name) -> Result<Option<ComposedState>, Error> {
        if Sort::from_ledger(&name.kind) != Some(Sort::Machine) {
            return Ok(None);
        }
        let folder = self.units.folder(&name.name);
        let disk = |why| Error::disk(&folder)(why);
        if self.units.holder(&name.name).map_err(disk)? == Holder::Free {
            return Ok(None);
        }
        // Something runs: without a readable record it is neither ours nor absent.
        let unit = self.units.read(&name.name).map_err(disk)?;
        let unit = unit.ok_or_else(|| Error::Corrupt { path: folder.clone() })?;
        Ok(Some(ComposedState::Present { uid: unit.owner, ours: true }))
    }
}

/// The machines that were seen and are not there, with their uids.
pub(super) fn missing_machines<'a>(
    record: &'a Record<Resource>,
    look: &'a mut Snapshot,
) -> impl Iterator<Item = (&'a mut ComposedSnapshot, Uid)> {
    let name_ledger = &record.name_ledger;
    look.composed.iter_mut().filter_map(|it| {
        let is_machine = Sort::from_ledger(&it.name.kind) == Some(Sort::Machine);
        let is_missing = it.reading == Ok(ComposedState::Absent);
        let uid = name_ledger.seen(&it.name).and_then(|row| row.uid.clone());
        Some((it, uid.filter(|_| is_machine && is_missing)?))
    })
}

/// What a part that stands is to one of this name.
fn stands(record: &Record<Resource>, name: &Name, it: &Object) -> ComposedState {
    let ours = is_ours(it, &record.state) && it.ledger_kind == name.kind;
    let owner = it.owner.as_ref().map(|it| &it.uid);
    let owning = generation_of(record, owner).unwrap_or(record.state.generation());
    // What one generation's XR composed is the absence of the others' under the same name.
    if ours && owning != name.generation {
        ComposedState::Absent
    } else {
        ComposedState::Present { uid: it.uid.clone(), ours }
    }
}

fn is_ours(object: &Object, resource: &Resource) -> bool {
    let installation = resource.pinned().installation.to_string();
    object.is_of(&installation, &resource.id().to_string())
}

fn xr_object(it: &Object, drifted: bool) -> XrObject {
    let condition = match it.substrate.as_ref().map(|it| &it.condition) {
        Some(Condition::Ready) => snapshot::Condition::Ready,
        Some(Condition::Failed { message }) => {
            snapshot::Condition::Failed { message: message.clone() }
        }
        Some(Condition::Converging) | None => snapshot::Condition::Converging,
    };
    XrObject { object: it.looked_at(), condition, drifted }
}

/// The generation of the XR with this uid, if it is on record.
fn generation_of(record: &Record<Resource>, owner: Option<&Uid>) -> Option<Generation> {
    let owner = owner?;
    let xr = record.state.xr_name(record.state.generation());
    let mut rows = record.name_ledger.rows().iter().rev().filter(|row| {
        row.name.kind == xr.kind && row.name.name == xr.name && row.uid.as_ref() == Some(owner)
    });
    rows.next().map(|row| row.name.generation)
}

fn open_parts(name_ledger: &NameLedger) -> impl Iterator<Item = &Name> {
    let open = name_ledger.rows().iter().filter(|row| !row.state.is_settled());
    open.map(|row| &row.name).filter(|name| Sort::from_ledger(&name.kind).is_some())
}

fn part_name(kind: &str, place: &str, name: &str, generation: Generation) -> Name {
    Name { kind: kind.to_owned(), place: place.to_owned(), name: name.to_owned(), generation }
}
