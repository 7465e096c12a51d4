use super::*;
use crate::object::manifest::Scope;
use crate::usage::aggregate::{Resolved, Status};
use crate::usage::attempt::{COLLECTOR, NAMESPACE_CONTROLLER};
use crate::usage::fixture::{NOW, key, reference, usage, usage_key};
use crate::usage::graph::Family;
use crate::usage::phase::Phase;

fn deletion() -> Deletion {
    Deletion {
        object: key("db"),
        uid: Uid::new("db-1"),
        deleting: false,
        break_glass: None,
        owners: vec![],
        propagation: Propagation::Background,
        requester: "jane".to_owned(),
        dry_run: false,
        rows_live: false,
    }
}

fn index(usages: impl IntoIterator<Item = Usage>) -> Graph {
    let mut graph = Graph::default();
    for it in usages {
        graph.put(Entry::of(&it));
    }
    graph
}

/// `app` uses `db`, under another name and uid.
fn another(number: usize) -> Usage {
    usage(|it| {
        it.key = usage_key(&format!("u{number:03}"));
        it.uid = Uid::new(format!("u-{number:03}"));
    })
}

fn reasoned() -> Usage {
    usage(|it| {
        it.status.by = None;
        if let Ok(spec) = &mut it.spec {
            (spec.by, spec.reason) = (None, Some("production".to_owned()));
        }
    })
}

fn ask(request: &Request, index: &Graph, freshness: Freshness) -> Answer {
    Admission::default().admit(request, index, (freshness, NOW))
}

fn delete(deletion: Deletion, index: &Graph) -> Answer {
    ask(&Request::Delete(deletion), index, Freshness::Live)
}

fn denied(answer: Answer) -> Denial {
    match answer {
        Answer::Deny(denial) => *denial,
        Answer::Allow(_) | Answer::Recheck => panic!("{answer:?}"),
    }
}

// Requirement: G-12
#[test]
fn what_is_used_is_not_deleted_and_the_deletion_is_kept() {
    let denial = denied(delete(deletion(), &index([usage(|_| {})])));
    let blocker = Blocker {
        usage: usage_key("u"),
        uid: Uid::new("u-1"),
        users: vec![key("app")],
        reason: None,
    };
    let attempt = Attempt {
        object: key("db"),
        uid: Uid::new("db-1"),
        propagation: Propagation::Background,
        requester: "jane".to_owned(),
        origin: Origin::Asked,
        at: NOW,
        expires_at: NOW.after(Duration::from_hours(24)),
        progress: Progress::Recorded,
    };
    let expected = Denial {
        refusal: Refusal::in_use(&key("db")),
        blockers: vec![blocker],
        more: 0,
        remedy: Remedy::EndTheUse,
        record: Some((usage_key("u"), Uid::new("u-1"), attempt)),
    };
    assert_eq!(denial, expected);
}

// Requirement: G-12
#[test]
fn a_dry_run_is_denied_and_writes_nothing() {
    let dry = Deletion { dry_run: true, ..deletion() };
    let denial = denied(delete(dry, &index([usage(|_| {})])));
    assert_eq!((denial.refusal, denial.record), (Refusal::in_use(&key("db")), None));
}

// Requirement: G-14
#[test]
fn no_requester_is_exempt_and_the_collector_is_recorded_with_the_owners() {
    let index = index([usage(|_| {})]);
    for (requester, origin) in [
        (COLLECTOR, Origin::Collected { owners: vec![Uid::new("a"), Uid::new("b")] }),
        (NAMESPACE_CONTROLLER, Origin::Asked),
        ("system:admin", Origin::Asked),
    ] {
        let owners = vec![Uid::new("b"), Uid::new("a")];
        let it = Deletion { requester: requester.to_owned(), owners, ..deletion() };
        let (.., attempt) = denied(delete(it, &index)).record.unwrap();
        assert_eq!(attempt.origin, origin);
    }
}

// Requirement: G-13
#[test]
fn from_an_index_that_may_lag_nothing_is_allowed() {
    let request = Request::Delete(deletion());
    assert_eq!(ask(&request, &index([]), Freshness::Cached), Answer::Recheck);
    assert_eq!(ask(&request, &index([]), Freshness::Live), Answer::Allow(None));
    let known = index([usage(|_| {})]);
    assert!(matches!(ask(&request, &known, Freshness::Cached), Answer::Deny(_)));
}

#[test]
fn a_usage_that_released_does_not_block() {
    for phase in [Phase::Idle, Phase::Releasing, Phase::Released] {
        let over = index([usage(|it| it.status.phase = phase)]);
        assert_eq!(delete(deletion(), &over), Answer::Allow(None), "{phase}");
    }
    let leaving = index([usage(|it| it.deleting = true)]);
    assert!(matches!(delete(deletion(), &leaving), Answer::Deny(_)), "its user still exists");
}

#[test]
fn an_object_being_deleted_may_be_deleted_again() {
    let it = Deletion { deleting: true, ..deletion() };
    assert_eq!(delete(it, &index([usage(|_| {})])), Answer::Allow(None));
}

// Requirement: G-14
#[test]
fn a_person_can_break_the_glass_with_a_note() {
    let index = index([usage(|_| {})]);
    let note = |text: &str| Deletion { break_glass: Some(text.to_owned()), ..deletion() };
    assert_eq!(delete(note("fire"), &index), Answer::Allow(Some("fire".to_owned())));
    assert!(matches!(delete(note("  "), &index), Answer::Deny(_)), "a note says something");
}

// Requirement: G-12
#[test]
fn blockers_are_named_up_to_a_bound_and_the_rest_is_counted() {
    let denial = denied(delete(deletion(), &index((0..70).map(another))));
    assert_eq!((denial.blockers.len(), denial.more), (BLOCKERS_MAX, 70 - BLOCKERS_MAX));
    let (usage, ..) = denial.record.unwrap();
    assert_eq!(usage, usage_key("u000"), "one of them remembers it, and passes it on");
}

#[test]
fn the_remedy_of_what_is_not_used_is_to_delete_the_usage() {
    let denial = denied(delete(deletion(), &index([reasoned()])));
    assert_eq!(denial.remedy, Remedy::DeleteTheUsage);
    assert_eq!(denial.blockers[0].reason.as_deref(), Some("production"));
}

// Requirement: G-20
#[test]
fn crossplane_usages_are_not_answered_for() {
    let mut graph = Graph::default();
    graph.put(Entry { family: Family::Crossplane, ..Entry::of(&usage(|_| {})) });
    assert_eq!(delete(deletion(), &graph), Answer::Allow(None));
    assert_eq!(graph.blockers(&key("db")).count(), 1, "it is shown");
}

fn namespace_of(name: &str) -> Deletion {
    let object = ObjectKey {
        group: String::new(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    };
    Deletion { object, ..deletion() }
}

// Requirement: G-19
#[test]
fn a_namespace_is_deletable_if_its_objects_are_deleted_in_order() {
    assert_eq!(delete(namespace_of("ns"), &index([usage(|_| {})])), Answer::Allow(None));
    let from_outside = usage(|it| {
        if let Some(by) = &mut it.status.by {
            by.found[0].namespace = "other".to_owned();
        }
    });
    for held in [from_outside, reasoned()] {
        let denial = denied(delete(namespace_of("ns"), &index([held])));
        assert_eq!(denial.refusal, Refusal::NamespaceInUse("ns".to_owned()));
        assert_eq!((denial.remedy, denial.record), (Remedy::EmptyTheNamespace, None));
    }
    assert_eq!(delete(namespace_of("other"), &index([reasoned()])), Answer::Allow(None));
}

// Requirement: G-19
#[test]
fn a_project_namespace_is_deletable_without_uses_and_records() {
    let name = "usher-project-1";
    let inside = usage(|it| {
        for resolved in [&mut it.status.of, &mut it.status.by].into_iter().flatten() {
            resolved.found[0].namespace = name.to_owned();
        }
    });
    let denial = denied(delete(namespace_of(name), &index([inside])));
    assert_eq!(denial.blockers.len(), 1);
    let living = Deletion { rows_live: true, ..namespace_of(name) };
    assert_eq!(denied(delete(living, &index([]))).blockers, []);
    assert_eq!(delete(namespace_of(name), &index([])), Answer::Allow(None));
    let elsewhere = Deletion { rows_live: true, ..namespace_of("ns") };
    assert_eq!(delete(elsewhere, &index([])), Answer::Allow(None));
}

// Requirement: G-15
#[test]
fn a_mark_stays_while_any_usage_holds() {
    let update =
        |marked, keeps_mark| Request::Update(Update { object: key("db"), marked, keeps_mark });
    let (held, free) = (index([usage(|_| {})]), index([]));
    let denial = denied(ask(&update(true, false), &held, Freshness::Cached));
    assert_eq!(denial.refusal, Refusal::MarkInUse(key("db").to_string()));
    assert_eq!(denial.remedy, Remedy::KeepTheMark);
    assert_eq!(ask(&update(true, false), &free, Freshness::Cached), Answer::Recheck);
    assert_eq!(ask(&update(true, false), &free, Freshness::Live), Answer::Allow(None));
    for (marked, keeps) in [(true, true), (false, true), (false, false)] {
        assert_eq!(ask(&update(marked, keeps), &held, Freshness::Cached), Answer::Allow(None));
    }
}

fn declaration(usage: Usage, before: Option<Usage>) -> Request {
    let scope = Some(Scope::Namespaced);
    let around = Surroundings { of: scope, by: scope, consents: false };
    Request::Declare(Box::new(Declaration { usage, before, around }))
}

#[test]
fn a_declaration_is_examined() {
    let declare = |usage, before| ask(&declaration(usage, before), &index([]), Freshness::Live);
    assert_eq!(declare(usage(|_| {}), None), Answer::Allow(None));
    let itself = |it: &mut Usage| {
        if let Ok(spec) = &mut it.spec {
            spec.by = Some(reference("db"));
        }
    };
    let refused = denied(declare(usage(itself), None));
    assert_eq!(refused.refusal.code(), "usage_uses_itself");
    assert_eq!(refused.remedy, Remedy::CorrectTheUsage);
    assert_eq!(
        denied(declare(usage(itself), Some(usage(|_| {})))).refusal.code(),
        "usage_uses_itself"
    );
    let unread = usage(|it| it.spec = Err(Refusal::PurposeMissing));
    assert_eq!(denied(declare(unread, None)).refusal, Refusal::PurposeMissing);
}

// Requirement: G-18
#[test]
fn a_write_that_does_not_change_the_declaration_is_allowed() {
    let bad = |deleting| {
        usage(|it| {
            it.deleting = deleting;
            it.spec = Err(Refusal::PurposeMissing);
        })
    };
    let request = declaration(bad(true), Some(bad(false)));
    assert_eq!(ask(&request, &index([]), Freshness::Cached), Answer::Allow(None));
}

// Requirement: G-17
#[test]
fn a_circle_is_refused_with_its_members() {
    let reversed = usage(|it| {
        it.uid = Uid::new("u-0");
        std::mem::swap(&mut it.status.of, &mut it.status.by);
    });
    let request = declaration(usage(|_| {}), None);
    let denial = denied(ask(&request, &index([reversed.clone()]), Freshness::Cached));
    let (app, db) = (key("app"), key("db"));
    let circle = format!("{app} → {db} → {app}");
    assert_eq!(denial.refusal, Refusal::Circle(circle));
    let over = Usage { status: Status::default(), ..reversed };
    assert_eq!(ask(&request, &index([over]), Freshness::Live), Answer::Allow(None));
}

// Requirement: G-17
#[test]
fn an_edit_that_would_close_a_circle_with_a_younger_usage_is_refused() {
    let younger = usage(|it| {
        (it.key, it.uid) = (usage_key("younger"), Uid::new("u-2"));
        it.created_at = NOW;
        std::mem::swap(&mut it.status.of, &mut it.status.by);
    });
    let before = usage(|it| {
        let elsewhere = reference("else");
        it.status.of = Some(Resolved { found: vec![key("else")], from: elsewhere.clone() });
        if let Ok(spec) = &mut it.spec {
            spec.of = elsewhere;
        }
    });
    let after = Usage { spec: usage(|_| {}).spec, ..before.clone() };
    let known = index([before.clone(), younger]);
    let request = declaration(after.clone(), Some(before.clone()));
    let denial = denied(ask(&request, &known, Freshness::Live));
    assert_eq!(denial.refusal.code(), "usage_circle");
    let alone = index([before.clone()]);
    let request = declaration(after, Some(before));
    assert_eq!(ask(&request, &alone, Freshness::Live), Answer::Allow(None));
}

#[test]
fn an_edit_is_not_checked_against_the_old_references() {
    let before = usage(|_| {});
    let turned = usage(|it| {
        if let Ok(spec) = &mut it.spec {
            (spec.of, spec.by) = (reference("app"), Some(reference("db")));
        }
    });
    let request = declaration(turned, Some(before.clone()));
    assert_eq!(ask(&request, &index([before]), Freshness::Live), Answer::Allow(None));
}

// Requirement: G-13
#[test]
fn a_declaration_is_not_let_in_from_an_index_that_may_lag() {
    let request = declaration(usage(|_| {}), None);
    assert_eq!(ask(&request, &index([]), Freshness::Cached), Answer::Recheck);
    assert_eq!(ask(&request, &index([]), Freshness::Live), Answer::Allow(None));
}
