//! What the tests of direct resources start from: a kind with a parent, a row, a snapshot, a cloud.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use usher_kernel::{Generation, Name, Timestamp, Trouble, Uid};
use uuid::Uuid;

pub(super) use crate::object::fixture::{START, foreign, gone, intended, record, seen};

use super::aggregate::{Fields, History, ObjectKey, Resource};
use super::deleter::{Deleter, Precondition};
use super::facts::{
    Asked as AskedFact, Cloud, Ended, Facts, GraceOver, Hold, Identity as IdentityFact,
    Object as ObjectFact, Operation, Policy, Refs, RowFacts, Search, Stamp,
};
use super::identity::{BadIdentity, Identified, Identity, IdentityText};
use super::mark::{Binding, Mark, RequestId};
use super::model::Model;
use super::phase::Phase;
use super::ports::{Call, Client, Method, Reader, Reply};
use super::reference::{BadReference, Bearing, Declared, Named, Read, Reference, Resolved, Target};
use super::snapshot::{CloudReading, Container, Found, Object, Reading, Snapshot};
use crate::object::authority::Authority;
use crate::object::id::InstallationId;
use crate::object::kv::KvCoordinates;
use crate::object::name::FINALIZER_DIRECT;

/// The present.
pub(super) const NOW: Timestamp = Timestamp::from_millis(60_000);

/// A row of which nothing is on record.
pub(super) const ROW: RowFacts = RowFacts {
    phase: Phase::Pending,
    identity: IdentityFact::None,
    grace_over: GraceOver::Yes,
    asked: AskedFact::No,
    ended: Ended::No,
};

/// A snapshot of an object that is to exist and is held.
pub(super) const HELD: Facts = Facts {
    object: ObjectFact::Held,
    hold: Hold::None,
    policy: Policy::Hold,
    refs: Refs::Agrees,
    search: Search::None,
    stamp: Stamp::Current,
    operation: Operation::None,
    cloud: Cloud::Absent,
};

/// The identity of the kind that the tests use.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Membership {
    pub(super) project: String,
    pub(super) feature: String,
    pub(super) member: String,
}

const PATTERN: [&str; 6] = ["projects", "", "features", "", "memberships", ""];

impl Identity for Membership {
    fn parse(text: &IdentityText) -> Result<Self, BadIdentity> {
        let parts = text.segments(&PATTERN)?;
        let [project, feature, member] = parts.as_slice() else {
            return Err(BadIdentity::new(text.as_str()));
        };
        Ok(Self {
            project: (*project).to_owned(),
            feature: (*feature).to_owned(),
            member: (*member).to_owned(),
        })
    }

    fn format(&self) -> IdentityText {
        let Self { project, feature, member } = self;
        format!("projects/{project}/features/{feature}/memberships/{member}").parse().unwrap()
    }
}

/// The kind that the tests use.
pub(super) struct Memberships;

/// What a person writes for it.
pub(super) struct Spec {
    pub(super) parent: Reference,
    pub(super) config: Reference,
}

const TARGET: Target =
    Target { kind: "example.org/Project", plural: "projects", path: "status.externalRef" };

const fn declared_as(field: &'static str, bearing: Bearing, reference: Reference) -> Declared {
    Declared { field, bearing, target: TARGET, reference }
}

impl Model for Memberships {
    const KIND: &'static str = "example.org/Membership";
    type Spec = Spec;
    type Identity = Membership;
    type Desired = String;
    type Deleter = MembershipDeleter;

    fn read(spec: &Value, namespace: &str) -> Result<Spec, BadReference> {
        let part = |member| Reference::parse(&spec[member], namespace);
        Ok(Spec { parent: part("parentRef")?, config: part("configRef")? })
    }

    fn references(spec: &Spec) -> Vec<Declared> {
        let (parent, config) = (spec.parent.clone(), spec.config.clone());
        vec![
            declared_as("parentRef", Bearing::Identity, parent),
            declared_as("configRef", Bearing::Configuration, config),
        ]
    }

    fn identify(_: &Spec, parents: &Resolved) -> Result<Membership, BadReference> {
        let parent = parents.get("parentRef").ok_or(BadReference::Empty)?;
        let bad = |_| BadReference::External(parent.as_str().to_owned());
        let project = parent.segments(&["projects", ""]).map_err(bad)?.concat();
        Ok(Membership { project, feature: "f".to_owned(), member: "m".to_owned() })
    }

    fn desire(_: &Spec, resolved: &Resolved) -> Result<String, BadReference> {
        let config = resolved.get("configRef").ok_or(BadReference::Empty)?;
        Ok(config.as_str().to_owned())
    }
}

/// Its deletion path.
pub(super) struct MembershipDeleter(Membership);

impl Deleter for MembershipDeleter {
    type Identity = Membership;

    fn from_identity(identity: Membership) -> Self {
        Self(identity)
    }

    async fn find(&self, client: &impl Client) -> Reading<Option<Found>> {
        let reply = client.send(&call(Method::Get, self.0.format().as_str(), None)).await;
        Ok(reply.reading()?.map(|body| Found {
            uid: Uid::new(body.as_str().unwrap_or_default()),
            etag: None,
            mark: None,
            drifted: false,
            leaving: false,
        }))
    }

    async fn probe(&self, client: &impl Client) -> Container {
        let path = format!("projects/{}", self.0.project);
        match client.send(&call(Method::Get, &path, None)).await.reading() {
            Ok(Some(_)) => Container::NameState,
            Ok(None) => Container::Gone,
            Err(_) => Container::Unknown,
        }
    }

    async fn delete(&self, client: &impl Client, at: &Precondition) -> Result<(), Trouble> {
        let call = call(Method::Delete, self.0.format().as_str(), at.etag());
        match client.send(&call).await.reading() {
            Ok(_) => Ok(()),
            Err(_) => Err(Trouble::unavailable("the cloud".to_owned())),
        }
    }
}

fn call(method: Method, path: &str, etag: Option<&str>) -> Call {
    let query = etag.map(|it| ("etag".to_owned(), it.to_owned())).into_iter().collect();
    Call { method, path: path.to_owned(), query, body: None }
}

/// A cloud that answers as scripted.
pub(super) struct CloudMembership {
    replies: RefCell<Vec<Reply>>,
    calls: RefCell<Vec<String>>,
}

impl CloudMembership {
    pub(super) fn answering(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: Vec<Reply> = replies.into_iter().collect();
        replies.reverse();
        Self { replies: RefCell::new(replies), calls: RefCell::default() }
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.calls.borrow().clone()
    }
}

impl Client for CloudMembership {
    async fn send(&self, call: &Call) -> Reply {
        let query = call.query.iter().map(|(key, value)| format!(" {key}={value}"));
        let query: String = query.collect();
        self.calls.borrow_mut().push(format!("{} {}{query}", call.method, call.path));
        self.replies.borrow_mut().pop().unwrap_or(Reply::Silent)
    }
}

/// A cluster that answers as scripted.
pub(super) struct Readings {
    reads: BTreeMap<String, Read>,
    asked: RefCell<Vec<String>>,
}

impl Readings {
    pub(super) fn new<'a>(reads: impl IntoIterator<Item = (&'a str, Read)>) -> Self {
        let reads = reads.into_iter().map(|(name, read)| (name.to_owned(), read));
        Self { reads: reads.collect(), asked: RefCell::default() }
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.asked.borrow().clone()
    }
}

impl Reader for Readings {
    async fn read(&self, _: &Target, named: &Named) -> Read {
        self.asked.borrow_mut().push(named.name.clone());
        self.reads.get(&named.name).cloned().unwrap_or(Read::Unavailable)
    }
}

/// What a future answers that never waits.
pub(super) fn finished<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(it) => it,
        Poll::Pending => panic!("a fake never waits"),
    }
}

pub(super) fn installation() -> InstallationId {
    InstallationId::from_uuid(Uuid::from_bytes([6; 16]))
}

pub(super) fn binding() -> Binding {
    Binding { installation: installation(), object: Uid::new("uid-1") }
}

pub(super) fn credential() -> KvCoordinates {
    KvCoordinates::new("kv", "clouds/main").unwrap()
}

/// The identity of the membership in a project.
pub(super) fn identified(project: &str) -> Identified {
    let (feature, member) = ("f".to_owned(), "m".to_owned());
    let identity = Membership { project: project.to_owned(), feature, member }.format();
    Identified { credential: credential(), identity }
}

/// The ledger name of the membership in project `a`.
pub(super) fn name() -> Name {
    identified("a").name(Memberships::KIND, Generation::FIRST)
}

fn named(name: &str) -> Reference {
    Reference::Named(Named { namespace: "ns".to_owned(), name: name.to_owned() })
}

pub(super) fn spec() -> Spec {
    Spec { parent: named("parent"), config: named("config") }
}

pub(super) fn declared() -> Vec<Declared> {
    Memberships::references(&spec())
}

pub(super) fn key() -> ObjectKey {
    ObjectKey { namespace: "ns".to_owned(), name: "web".to_owned(), uid: Uid::new("uid-1") }
}

/// A new row.
pub(super) fn fields() -> Fields {
    Fields {
        object: key(),
        installation: installation(),
        kind: Memberships::KIND.to_owned(),
        history: History::Witnessed,
        phase: Phase::Pending,
        identity: None,
        resolutions: vec![],
        generation: Generation::FIRST,
        attempt: 1,
        operation: None,
        spent: None,
        deletion_seen_at: None,
        asked_at: None,
        grace_until: None,
        watch_until: None,
        outcome: None,
        orphan: None,
        created_at: START,
        updated_at: START,
        phase_since: START,
    }
}

/// A stored row that differs from a new one as said.
pub(super) fn resource(bend: impl FnOnce(&mut Fields)) -> Resource {
    let mut fields = fields();
    bend(&mut fields);
    Resource::hydrate(fields).unwrap()
}

/// A row whose deletion was seen.
pub(super) fn leaving(bend: impl FnOnce(&mut Fields)) -> Resource {
    resource(|it| {
        it.phase = Phase::Deleting;
        it.deletion_seen_at = Some(START);
        bend(it);
    })
}

/// An object that is to exist, with our finalizer and without a stamp.
pub(super) fn object() -> Object {
    Object {
        uid: Uid::new("uid-1"),
        deleting: false,
        finalizers: vec![FINALIZER_DIRECT.to_owned()],
        policy: None,
        stamp: None,
        status: None,
    }
}

/// A cloud object with our mark.
pub(super) fn found(uid: &str) -> Found {
    let owner = binding();
    let request = RequestId::of(&owner, 1);
    Found {
        uid: Uid::new(uid),
        etag: Some("7".to_owned()),
        mark: Some(Mark { owner, request }),
        drifted: false,
        leaving: false,
    }
}

/// The cloud's answer about the membership in project `a`.
pub(super) fn asked(found: Reading<Option<Found>>) -> CloudReading {
    CloudReading { identified: identified("a"), found, container: None }
}

/// A snapshot of an object that is to exist, whose references resolve and whose name is free.
pub(super) fn snapshot() -> Snapshot {
    Snapshot {
        by: "cloud".to_owned(),
        at: NOW,
        may_act_until: None,
        cluster: Authority::Pinned,
        cluster_guard_tripped: false,
        object: Ok(Some(object())),
        credential: credential(),
        spec: Some(Ok(identified("a"))),
        configuration: Some(Ok(())),
        references: vec!["ns/parent".to_owned()],
        authority: Authority::Pinned,
        guard_tripped: false,
        operations: Ok(vec![]),
        cloud: Some(asked(Ok(None))),
        search: None,
    }
}
