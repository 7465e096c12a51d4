//! What the tests of this context start from: a plain Usage, its objects, a snapshot of a healthy
//! world.

use std::collections::BTreeMap;
use std::time::Duration;

use usher_kernel::{NameState, Row, Timestamp, Uid};

pub(super) use crate::object::fixture::{START, record};

use super::aggregate::{Resolved, Spec, Status, Usage};
use super::attempt::{Attempt, Origin, Progress, Propagation};
use super::facts::Resolve;
use super::phase::Phase;
use super::reference::{
    ObjectKey, Operator, Pick, Reference, Requirement, Role, Selection, Selector, UsageKey,
    UsageKind,
};
use super::snapshot::{Found, Object, Snapshot};
use crate::object::authority::Authority;
use crate::object::fixture;

/// The present.
pub(super) const NOW: Timestamp = Timestamp::from_millis(60_000);

pub(super) fn key(name: &str) -> ObjectKey {
    reference(name).key(name)
}

pub(super) fn reference(name: &str) -> Reference {
    Reference {
        group: "example.org".to_owned(),
        version: "v1".to_owned(),
        kind: "Database".to_owned(),
        namespace: "ns".to_owned(),
        pick: Pick::Name(name.to_owned()),
    }
}

/// A reference to the first object with this value of the label `app`.
pub(super) fn selecting(value: &str) -> Reference {
    let requirement = Requirement {
        key: "app".parse().unwrap(),
        operator: Operator::In,
        values: vec![value.to_owned()],
    };
    let labels = vec![requirement];
    let selector = Selector { labels, controller: false, selection: Selection::First };
    Reference { pick: Pick::Match(selector), ..reference("") }
}

pub(super) fn usage_key(name: &str) -> UsageKey {
    UsageKey { kind: UsageKind::Usage, namespace: "ns".to_owned(), name: name.to_owned() }
}

/// `app` uses `db`: resolved, marked, proven, and changed as given.
pub(super) fn usage(bend: impl FnOnce(&mut Usage)) -> Usage {
    let found = |name: &str| Some(Resolved { from: reference(name), found: vec![key(name)] });
    let mut usage = Usage {
        key: usage_key("u"),
        uid: Uid::new("u-1"),
        created_at: START,
        deleting: false,
        finalizer: true,
        owners: vec![],
        spec: Ok(Spec {
            of: reference("db"),
            by: Some(reference("app")),
            reason: None,
            resolve: Resolve::Once,
            replay: true,
        }),
        status: Status {
            phase: Phase::Protected,
            of: found("db"),
            by: found("app"),
            proven: [Uid::new("db-1")].into(),
            attempts: vec![],
        },
    };
    bend(&mut usage);
    usage
}

pub(super) fn row(role: Role, name: &str, state: NameState, uid: Option<&str>) -> Row {
    fixture::row(role.name(&key(name)), state, uid)
}

/// The rows of that Usage: its mark and its user exist.
pub(super) fn rows() -> Vec<Row> {
    vec![
        row(Role::Mark, "db", NameState::Seen, Some("db-1")),
        row(Role::User, "app", NameState::Seen, Some("app-1")),
    ]
}

pub(super) fn object(uid: &str, mark: Option<&str>) -> Found {
    Found::Present(Object {
        uid: Uid::new(uid),
        mark: mark.map(str::to_owned),
        deleting: false,
        owners: vec![],
        blocks: false,
        revision: "1".to_owned(),
    })
}

/// A snapshot of a world in which both exist and the mark is ours.
pub(super) fn snapshot() -> Snapshot {
    let objects =
        [(key("db"), Ok(object("db-1", Some("u-1")))), (key("app"), Ok(object("app-1", None)))];
    Snapshot {
        by: "cluster".to_owned(),
        at: NOW,
        authority: Authority::Pinned,
        guard_tripped: false,
        of_candidates: Ok(vec![]),
        by_candidates: Ok(vec![]),
        consents: Ok(true),
        circle: Ok(None),
        objects: objects.into(),
        others: Ok(vec![]),
        probes: BTreeMap::new(),
    }
}

/// A denied deletion of `db` with this uid.
pub(super) fn attempt(uid: &str) -> Attempt {
    Attempt {
        object: key("db"),
        uid: Uid::new(uid),
        propagation: Propagation::Background,
        requester: "jane".to_owned(),
        origin: Origin::Asked,
        at: NOW,
        expires_at: NOW.after(Duration::from_hours(24)),
        progress: Progress::Recorded,
    }
}
