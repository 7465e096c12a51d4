//! One snapshot: the object, its references, and the cloud, each with its own way to fail.

use std::time::Duration;

use serde_json::Value;
use usher_domain::direct::aggregate::Resource;
use usher_domain::direct::deleter::Deleter as _;
use usher_domain::direct::identity::{Identified, Identity as _};
use usher_domain::direct::ladder::{Rung, identify, rung};
use usher_domain::direct::model::Model;
use usher_domain::direct::operation::Operation;
use usher_domain::direct::ports::{Reader, Reply};
use usher_domain::direct::reference::{
    Converging, Named, Read, Reference, Target, Unresolved, judge, resolve_all, resolve_identity,
};
use usher_domain::direct::snapshot::{self, CloudReading, ReadError, Reading, Snapshot};
use usher_domain::object::authority::{Authority, Pin};
use usher_kernel::{Record, Uid, Unknown};

use crate::direct::breakage::Breakage;
use crate::direct::cloud::{CloudObject, Running, container};
use crate::direct::fault::Fault;
use crate::direct::model::{Membership, MembershipDeleter, Memberships, SimClient, body, finished};
use crate::direct::outside::{Object, Outside};
use crate::direct::state::{State, credential};
use crate::sim_world::SimWorld as _;

/// What one read of the cloud is answered from.
struct Page {
    authority: Authority,
    objects: Vec<CloudObject>,
    operations: Vec<Running>,
    /// What every question is answered with instead.
    reply: Option<Reply>,
}

/// A reader of the cluster at one moment, with what fails in it.
struct SimReader<'a> {
    outside: &'a Outside,
    tick: i64,
    fails: Option<Read>,
}

impl Reader for SimReader<'_> {
    async fn read(&self, _: &Target, named: &Named) -> Read {
        self.fails.clone().unwrap_or_else(|| self.outside.read(named, self.tick))
    }
}

/// What the references of a spec say.
#[derive(Default)]
struct References {
    spec: Option<Result<Identified, Unresolved>>,
    configuration: Option<Result<(), Unresolved>>,
}

impl State {
    /// One snapshot of a row. `barrier` asks the cloud for its revision before it is read.
    pub fn snapshot(&mut self, index: usize, record: &Record<Resource>, barrier: bool) -> Snapshot {
        let row = &self.store.resources[index];
        let may_act_until = row.entry.as_ref().and_then(|it| it.unreturned_until);
        let object = self.outside.object(row.object).cloned();
        let tick = self.base.tick;
        let rebuilt = self.outside.is_rebuilt(tick);
        if rebuilt {
            self.base.coverage.fault(Fault::Rebuilt);
        }
        let hidden = tick < self.hidden_until;
        if hidden && object.is_some() {
            self.base.coverage.fault(Fault::ObjectsAbsent);
        }
        let existing = object.as_ref().filter(|_| !rebuilt && !hidden);
        let step = rung(&record.state, existing.map(Object::seen).as_ref(), &credential());
        let ended = record.state.is_ended();
        let references = match (existing, &step) {
            (None, _) | (_, Rung::Copy) => References::default(),
            _ if ended => References::default(),
            (Some(it), Rung::Recorded(_) | Rung::Stamped(_)) if it.deleting => self.unasked(it),
            (Some(it), _) => self.references(it),
        };
        let page = self.page(barrier);
        let searches = matches!(step, Rung::Search | Rung::Stamped(_)) && !ended;
        let asked = match &step {
            Rung::Recorded(it) | Rung::Stamped(it) => Some(it.clone()),
            Rung::Search | Rung::Nothing | Rung::Copy => None,
        };
        let wanted = existing.map(|it| it.spec.wanted);
        let spells = existing.map(|it| Memberships::references(&it.spec)).unwrap_or_default();
        Snapshot {
            by: "cloud".to_owned(),
            at: self.now(),
            may_act_until,
            cluster: if rebuilt { Authority::Replaced } else { Authority::Pinned },
            cluster_guard_tripped: self.store.cluster_guard_tripped,
            object: self.seen(existing),
            credential: credential(),
            spec: references.spec,
            configuration: references.configuration,
            references: spells.iter().map(|it| it.reference.to_text()).collect(),
            authority: page.authority,
            guard_tripped: self.store.guard_tripped,
            operations: self.operations(&page, asked.as_ref()),
            search: searches.then(|| search(&page, wanted)),
            cloud: asked.map(|it| self.ask_about(&page, it, (existing, wanted))),
        }
    }

    /// What must not be read: the references of an object whose identity is on record.
    fn unasked(&mut self, object: &Object) -> References {
        let config =
            object.spec.config.as_ref().filter(|_| self.is_broken(Breakage::ResolveConfiguration));
        let Some(Reference::Named(named)) = config else {
            return References::default();
        };
        let spec = judge(&self.outside.read(named, self.base.tick), false).err().map(Err);
        References { spec, configuration: None }
    }

    /// What the cloud says of an identity; where the spec is preferred, of the one it declares.
    fn ask_about(
        &mut self,
        page: &Page,
        identified: Identified,
        (object, wanted): (Option<&Object>, Option<u64>),
    ) -> CloudReading {
        let leaving = object.filter(|it| it.deleting && self.is_broken(Breakage::SpecOverRecord));
        let spec = leaving.and_then(|it| self.stands_for(it.uid)?.parse().ok());
        let Some(identity) = spec else {
            return self.ask(page, identified, wanted);
        };
        let instead = Identified { identity, ..identified.clone() };
        CloudReading { identified, ..self.ask(page, instead, wanted) }
    }

    fn seen(&mut self, object: Option<&Object>) -> Result<Option<snapshot::Object>, Unknown> {
        if self.injects(Fault::ObjectUnknown, 25) {
            return Err(Unknown::Unreachable);
        }
        Ok(object.map(Object::seen))
    }

    /// Resolves what may be resolved: everything while the object is declared, else the identity.
    fn references(&mut self, object: &Object) -> References {
        let reader = SimReader {
            fails: if let Some(read) = &self.stubborn.read {
                Some(read.clone())
            } else if self.injects(Fault::ReferenceForbidden, 40) {
                Some(Read::Forbidden)
            } else {
                self.injects(Fault::ReferenceUnavailable, 40).then_some(Read::Unavailable)
            },
            outside: &self.outside,
            tick: self.base.tick,
        };
        let declared = Memberships::references(&object.spec);
        let resolved = finished(resolve_identity(&reader, &declared, &[]));
        let wanted = Converging::of(&object.seen());
        let all = wanted.map(|it| finished(resolve_all(&reader, &declared, &it)));
        // While it is declared a parent being deleted does not lend its identity.
        let bearing = all.as_ref().map_or(resolved.clone(), |all| match all {
            Err(Unresolved::Terminating) => Err(Unresolved::Terminating),
            Ok(_) | Err(_) => resolved,
        });
        let spec = identify::<Memberships>(&object.spec, &bearing, &credential());
        self.note_references(object);
        References { spec: Some(spec), configuration: all.map(|it| it.map(|_| ())) }
    }

    /// Notes what a read of the references met.
    fn note_references(&mut self, object: &Object) {
        let tick = self.base.tick;
        let references = [Some(&object.spec.parent), object.spec.config.as_ref()];
        for reference in references.into_iter().flatten() {
            let Reference::Named(named) = reference else { continue };
            let config = named.name == super::people::CONFIG;
            let fault = match self.outside.read(named, tick) {
                Read::KindNotInstalled => Fault::KindNotInstalled,
                Read::Absent if config => Fault::ConfigMissing,
                Read::Absent => Fault::ParentDeleted,
                Read::Found(it) if it.terminating => Fault::ParentTerminating,
                Read::Found(it) if it.external.is_none() => Fault::ParentNotReady,
                Read::Found(_) | Read::Forbidden | Read::Unavailable => continue,
            };
            self.base.coverage.fault(fault);
        }
    }

    /// What the cloud is read from: now, a while ago, or from nowhere.
    fn page(&mut self, barrier: bool) -> Page {
        let cloud = &self.outside.cloud;
        let now = (cloud.revision, cloud.objects.clone(), cloud.operations.clone());
        let lagging = cloud.replica.clone();
        let empty = self.base.tick < self.empty_until;
        let (revision, objects, operations) = if empty {
            self.base.coverage.fault(Fault::EmptyReads);
            (now.0, vec![], vec![])
        } else if let Some(old) = lagging.filter(|_| self.injects(Fault::Lagging, 120)) {
            if barrier {
                self.store.pin.revision = now.0;
            }
            old
        } else {
            now
        };
        let pin = Pin { identity: Uid::new("cloud"), revision };
        let authority = self.store.pin.judge(&pin);
        if authority == Authority::Pinned {
            self.store.pin.revision = revision;
        }
        let reply = self.unanswered();
        Page { authority, objects, operations, reply }
    }

    /// Whether the cloud answers at all.
    fn unanswered(&mut self) -> Option<Reply> {
        let answered =
            |status, retry_after| Reply::Answered { status, retry_after, body: Value::Null };
        if let Some(status) = self.stubborn.status {
            return Some(answered(status, None));
        }
        if self.injects(Fault::Unavailable, 30) {
            let silent = self.base.rng.percent(30);
            return Some(if silent { Reply::Silent } else { answered(503, None) });
        }
        if self.injects(Fault::Throttled, 25) {
            let wait = self.base.rng.between(1, 60).unsigned_abs();
            return Some(answered(429, Some(Duration::from_millis(wait))));
        }
        self.injects(Fault::Forbidden, 25).then(|| answered(403, None))
    }

    fn operations(&mut self, page: &Page, asked: Option<&Identified>) -> Reading<Vec<Operation>> {
        let Some(asked) = asked else {
            return Ok(vec![]);
        };
        if self.injects(Fault::OperationsUnknown, 25) {
            return Err(ReadError::Unavailable);
        }
        let about = page.operations.iter().filter(|it| it.identity == asked.identity.as_str());
        Ok(about.rev().map(Running::listed).collect())
    }

    /// Asks the deleter of the kind what exists there and, after a refusal, whether its container
    /// does.
    fn ask(&mut self, page: &Page, identified: Identified, wanted: Option<u64>) -> CloudReading {
        let identity = identified.identity.as_str();
        let answer = |status, body| Reply::Answered { status, retry_after: None, body };
        let exists = self.outside.cloud.containers.contains(&container(identity));
        let object = page.objects.iter().find(|it| it.identity == identity);
        let reply = page.reply.clone().unwrap_or_else(|| match object {
            // What lies in a container that is gone may not be read.
            _ if !exists => answer(403, Value::Null),
            Some(it) => answer(200, body(&it.seen(wanted))),
            None => answer(404, Value::Null),
        });
        let probed = if self.injects(Fault::Unavailable, 20) {
            Reply::Silent
        } else {
            answer(if exists { 200 } else { 404 }, Value::Null)
        };
        let client = SimClient { container: probed, object: reply };
        let Ok(parsed) = Membership::parse(&identified.identity) else {
            return CloudReading { identified, found: Err(ReadError::Refused), container: None };
        };
        let deleter = MembershipDeleter::from_identity(parsed);
        let found = finished(deleter.find(&client));
        let refused = found == Err(ReadError::Refused);
        let container = refused.then(|| finished(deleter.probe(&client)));
        if !exists && refused {
            self.base.coverage.fault(Fault::ContainerDeleted);
        }
        CloudReading { identified, found, container }
    }
}

/// Everything in the account with a mark.
fn search(page: &Page, wanted: Option<u64>) -> Reading<Vec<(Identified, snapshot::Found)>> {
    if let Some(reply) = &page.reply {
        reply.reading()?;
    }
    let marked = page.objects.iter().filter(|it| it.mark.is_some());
    let found = marked.filter_map(|it| {
        let identity = it.identity.parse().ok()?;
        Some((Identified { credential: credential(), identity }, it.seen(wanted)))
    });
    Ok(found.collect())
}
