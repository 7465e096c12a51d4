//! What an adapter brings back from the simulated cluster: late, partly, or from somewhere else.

use std::collections::BTreeMap;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::{self, Found, ProviderConfig};
use usher_domain::broker::snapshot::{
    ComposedSnapshot, ComposedState, Condition, Guard, Object, Peer, Reading, Snapshot, TokenState,
    XrObject,
};
use usher_domain::object::authority::{Authority, Pin};
use usher_kernel::{Generation, Name, NameLedger, Record, Uid, Unknown};

use crate::broker::fault::Fault;
use crate::broker::outside::{self, Kind, uid};
use crate::broker::state::State;
use crate::sim_world::SimWorld as _;

/// What one read of the cluster sees.
struct Page {
    authority: Authority,
    objects: Vec<outside::Object>,
}

impl State {
    /// Reads the cluster, or what answers in its place, and judges which of them answered.
    ///
    /// A snapshot must not be older than its beginning: with the `barrier`, the cluster is asked
    /// for its revision first, and an older page proves nothing.
    fn page(&mut self, barrier: bool) -> Page {
        let (pin, objects) = if self.outside.is_rebuilt(self.base.tick) {
            self.base.coverage.fault(Fault::Rebuilt);
            (Pin { identity: Uid::new("rebuilt"), revision: 1 }, vec![])
        } else if self.base.tick < self.outside.empty_until {
            if !self.outside.objects.is_empty() {
                self.base.coverage.fault(Fault::EmptyReads);
            }
            (Pin { identity: Uid::new("cluster"), revision: self.outside.revision }, vec![])
        } else if self.outside.replica.is_some() && self.injects(Fault::Lagging, 150) {
            let (revision, objects) = self.outside.replica.clone().unwrap_or_default();
            if barrier {
                self.store.pin.revision = self.outside.revision;
            }
            (Pin { identity: Uid::new("cluster"), revision }, objects)
        } else {
            let revision = self.outside.revision;
            (Pin { identity: Uid::new("cluster"), revision }, self.outside.objects.clone())
        };
        let authority = self.store.pin.judge(&pin);
        if authority == Authority::Pinned {
            self.store.pin.revision = pin.revision;
        }
        Page { authority, objects }
    }

    /// Whether this part of the snapshot fails.
    fn unanswered(&mut self) -> Option<Unknown> {
        if self.injects(Fault::Unreachable, 30) {
            return Some(Unknown::Unreachable);
        }
        self.injects(Fault::Forbidden, 20).then_some(Unknown::Forbidden)
    }

    fn reading<T>(&mut self, value: T) -> Reading<T> {
        self.unanswered().map_or(Ok(value), Err)
    }

    /// One snapshot of a resource.
    pub fn snapshot(&mut self, index: usize, record: &Record<Resource>, barrier: bool) -> Snapshot {
        let page = self.page(barrier);
        let resource = &record.state;
        let anchors = anchors(&page, |it| resource.anchor_name(it).name, resource.generation());
        let xr = page
            .objects
            .iter()
            .find(|it| it.kind == Kind::Xr && it.name == resource.pinned().xr_name);
        let guard = xr.and_then(|it| it.xr.as_ref()).map_or(Guard::None, |it| match it.guard {
            outside::Guard::None => Guard::None,
            outside::Guard::Ours => Guard::Ours,
            outside::Guard::Another => Guard::Another,
        });
        let composed = self.composed(&page, record, xr);
        let xr = xr.map(|it| self.xr_object(it));
        let ready = self.outside.namespace_ready_at <= self.base.tick;
        let peers = self.peers(index);
        Snapshot {
            by: "cluster".to_owned(),
            at: self.now(),
            authority: page.authority,
            guard_tripped: self.store.guard_tripped,
            namespace_ready: self.reading(ready),
            anchors: self.reading(anchors),
            config_ready: self.store.config.record.state.is_ready(),
            xr: self.reading(xr),
            composed_listed: self.reading(()),
            composed,
            tokens: self.tokens(index),
            peers: self.reading(peers),
            protection: self.reading(guard),
        }
    }

    fn xr_object(&self, it: &outside::Object) -> XrObject {
        let composite = it.xr.as_ref();
        let failed = composite.and_then(|it| it.fails_at).is_some_and(|at| at <= self.base.tick);
        let condition = if failed {
            Condition::Failed { message: "quota".to_owned() }
        } else if self.outside.is_ready(it, self.base.tick) {
            Condition::Ready
        } else {
            Condition::Converging
        };
        let drifted = composite.is_some_and(|it| it.drifted);
        XrObject { object: object(it), condition, drifted }
    }

    fn composed(
        &mut self,
        page: &Page,
        record: &Record<Resource>,
        xr: Option<&outside::Object>,
    ) -> Vec<ComposedSnapshot> {
        let label = record.state.id().to_string();
        let mine = |it: &&outside::Object| {
            matches!(it.kind, Kind::Part(_))
                && it.labels.as_ref().is_some_and(|labels| labels.record_id == label)
        };
        let mut looks: Vec<(Kind, Name, bool)> = Vec::new();
        let current = record.state.generation();
        for it in page.objects.iter().filter(mine) {
            let generation = generation_of(&record.name_ledger, it.owner).unwrap_or(current);
            looks.push((it.kind, part_name(it.kind, &it.name, generation), false));
        }
        let ours =
            xr.filter(|it| it.labels.as_ref().is_some_and(|labels| labels.record_id == label));
        if let Some((xr, composite)) = ours.and_then(|it| it.xr.as_ref().map(|xr| (it, xr))) {
            let generation = generation_of(&record.name_ledger, Some(xr.uid)).unwrap_or(current);
            for (kind, name) in &composite.refs {
                let kind = Kind::Part(*kind);
                looks.push((kind, part_name(kind, name, generation), true));
            }
        }
        for row in record.name_ledger.rows().iter().filter(|row| !row.state.is_settled()) {
            if let Some(kind) = part_kind(&row.name.kind) {
                looks.push((kind, row.name.clone(), false));
            }
        }
        let mut merged: BTreeMap<Name, (Kind, bool)> = BTreeMap::new();
        for (kind, name, referred) in looks {
            merged.entry(name).or_insert((kind, false)).1 |= referred;
        }
        merged
            .into_iter()
            .map(|(name, (kind, referred))| {
                let reading = self.part_state(page, record, (kind, &name));
                let plural = Some("parts".to_owned());
                ComposedSnapshot { name, plural, reading, referred }
            })
            .collect()
    }

    fn part_state(
        &mut self,
        page: &Page,
        record: &Record<Resource>,
        (kind, name): (Kind, &Name),
    ) -> Reading<ComposedState> {
        if self.hidden(kind) {
            self.base.coverage.fault(Fault::KindRemoved);
            return Ok(ComposedState::KindRemoved);
        }
        if let Some(why) = self.unanswered() {
            return Err(why);
        }
        let label = record.state.id().to_string();
        let found = page.objects.iter().find(|it| it.kind == kind && it.name == name.name);
        let Some(it) = found else {
            return Ok(ComposedState::Absent);
        };
        let ours = it.labels.as_ref().is_some_and(|labels| labels.record_id == label);
        let owning =
            generation_of(&record.name_ledger, it.owner).unwrap_or(record.state.generation());
        // What one generation's XR composed is the absence of the others' under the same name.
        Ok(if ours && owning != name.generation {
            ComposedState::Absent
        } else {
            ComposedState::Present { uid: uid(it.uid), ours }
        })
    }

    fn tokens(&self, index: usize) -> BTreeMap<Generation, TokenState> {
        self.store
            .tokens
            .values()
            .filter(|it| it.resource == index)
            .map(|it| (it.token.generation, self.token_state(it)))
            .collect()
    }

    fn peers(&self, index: usize) -> BTreeMap<Generation, Peer> {
        let mine = self.store.peers.iter().filter(|it| it.resource == index);
        mine.map(|it| (it.generation(), Peer { id: it.peer.id, state: self.peer_state(it) }))
            .collect()
    }

    /// One snapshot of the ProviderConfig.
    pub fn observe_config(&mut self, record: &Record<ProviderConfig>) -> provider_config::Snapshot {
        let page = self.page(true);
        let config = &record.state;
        let found = |kind, name: Name| {
            let found = page.objects.iter().find(|it| it.kind == kind && it.name == name.name);
            let revision = |it: &outside::Object| it.revision.to_string();
            found.map(|it| Found { object: object(it), drifted: false, revision: revision(it) })
        };
        let written = found(Kind::Config, config.config_name(config.generation));
        let secret = found(Kind::Secret, config.external_secret_name(config.generation));
        let anchors = anchors(&page, |it| config.anchor_name(it).name, config.generation);
        let ready = self.outside.namespace_ready_at <= self.base.tick;
        provider_config::Snapshot {
            by: "cluster".to_owned(),
            at: self.now(),
            authority: page.authority,
            guard_tripped: self.store.guard_tripped,
            namespace_ready: self.reading(ready),
            anchors: self.reading(anchors),
            config: self.reading(written),
            external_secret: self.reading(secret),
            secret: self.reading(None),
        }
    }
}

fn object(it: &outside::Object) -> Object {
    Object {
        uid: uid(it.uid),
        installation: it.labels.as_ref().map(|labels| labels.installation.clone()),
        record_id: it.labels.as_ref().map(|labels| labels.record_id.clone()),
        owner: it.owner.map(uid),
        deleting: it.leaving,
    }
}

/// Every anchor that has one of our names; ours have no others.
fn anchors(
    page: &Page,
    name: impl Fn(Generation) -> String,
    last: Generation,
) -> BTreeMap<Generation, Object> {
    let mut found = BTreeMap::new();
    for generation in (Generation::FIRST.0..=last.0).map(Generation) {
        let wanted = name(generation);
        let named = page.objects.iter().find(|it| it.kind == Kind::Anchor && it.name == wanted);
        if let Some(it) = named {
            found.insert(generation, object(it));
        }
    }
    found
}

fn part_name(kind: Kind, name: &str, generation: Generation) -> Name {
    Name { kind: kind.text(), place: "ns".to_owned(), name: name.to_owned(), generation }
}

fn part_kind(text: &str) -> Option<Kind> {
    let number = text.strip_prefix("parts.example/Part")?;
    number.parse().ok().map(Kind::Part)
}

fn generation_of(name_ledger: &NameLedger, owner: Option<u64>) -> Option<Generation> {
    let owner = uid(owner?);
    let rows = name_ledger.rows().iter().filter(|row| row.name.kind == Kind::Xr.text());
    rows.rev().find(|row| row.uid.as_ref() == Some(&owner)).map(|row| row.name.generation)
}
