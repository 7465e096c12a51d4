use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::direct::fixture::{Readings, declared, finished, object};

fn text(text: &str) -> IdentityText {
    text.parse().unwrap()
}

fn found(external: Option<&str>, terminating: bool) -> Read {
    let external = external.map(str::to_owned);
    Read::Found(Referent { uid: Uid::new("r"), external, terminating })
}

#[test]
fn a_reference_is_external_or_a_name() {
    let external = Reference::parse(&json!({ "external": "projects/p" }), "ns");
    assert_eq!(external, Ok(Reference::External(text("projects/p"))));
    let named = |namespace: &str| {
        let (namespace, name) = (namespace.to_owned(), "m.1".to_owned());
        Ok(Reference::Named(Named { namespace, name }))
    };
    assert_eq!(Reference::parse(&json!({ "name": "m.1" }), "ns"), named("ns"));
    let other = json!({ "name": "m.1", "namespace": "other" });
    assert_eq!(Reference::parse(&other, "ns"), named("other"));
    assert_eq!(named("ns").unwrap().to_text(), "ns/m.1");
    assert_eq!(external.unwrap().to_text(), "projects/p");
}

// Requirement: I-19
#[test]
fn every_other_shape_is_refused_by_its_own_code() {
    let cases = [
        (json!(null), "reference_shape"),
        (json!("projects/p"), "reference_shape"),
        (json!([]), "reference_shape"),
        (json!({ "name": 7 }), "reference_shape"),
        (json!({ "external": null }), "reference_shape"),
        (json!({ "name": "m", "uid": "x" }), "reference_shape"),
        (json!({}), "reference_empty"),
        (json!({ "namespace": "ns" }), "reference_empty"),
        (json!({ "name": "m", "external": "projects/p" }), "reference_ambiguous"),
        (json!({ "namespace": "ns", "external": "projects/p" }), "reference_ambiguous"),
        (json!({ "external": "" }), "reference_external"),
        (json!({ "external": "//host/p" }), "reference_external"),
        (json!({ "external": "a/../b" }), "reference_external"),
        (json!({ "name": "" }), "reference_name"),
        (json!({ "name": "../m" }), "reference_name"),
        (json!({ "name": "m/n" }), "reference_name"),
        (json!({ "name": "m", "namespace": "a.b" }), "reference_name"),
    ];
    for (value, code) in cases {
        let refusal = Reference::parse(&value, "ns").unwrap_err();
        assert_eq!(refusal.code(), code, "{value}");
        assert!(refusal.to_string().contains("reference"), "{refusal}");
    }
    let bad = Reference::parse(&json!({ "name": "m" }), "Not A Namespace");
    assert!(bad.is_err(), "the namespace of the referrer is checked, too");
}

// Requirement: I-19
#[test]
fn every_read_has_its_verdict() {
    use Unresolved::{Forbidden, Invalid, KindNotInstalled, NotFound, NotReady, Terminating};
    let p = || Ok(text("p"));
    let cases = [
        (Read::Absent, Err(NotFound), Err(NotFound)),
        (Read::KindNotInstalled, Err(KindNotInstalled), Err(KindNotInstalled)),
        (Read::Forbidden, Err(Forbidden), Err(Forbidden)),
        (Read::Unavailable, Err(Unresolved::Unavailable), Err(Unresolved::Unavailable)),
        (found(None, false), Err(NotReady), Err(NotReady)),
        (found(None, true), Err(Terminating), Err(Terminating)),
        (found(Some("p"), true), Err(Terminating), p()),
        (found(Some("p"), false), p(), p()),
        (found(Some("a//b"), false), Err(Invalid), Err(Invalid)),
    ];
    for (read, wanted, leaving) in cases {
        assert_eq!(judge(&read, false), wanted, "{read:?}");
        assert_eq!(judge(&read, true), leaving, "{read:?}");
    }
}

// Requirement: I-20
#[test]
fn only_an_object_not_being_deleted_resolves_configuration() {
    assert!(Converging::of(&object()).is_some());
    assert!(Converging::of(&Object { deleting: true, ..object() }).is_none());
}

// Requirement: I-20
#[test]
fn to_delete_only_the_identity_is_resolved() {
    let reader = Readings::new([("parent", found(Some("p"), false)), ("config", Read::Absent)]);
    let declared = declared();
    let resolved = finished(resolve_identity(&reader, &declared, &[])).unwrap();
    assert_eq!(resolved.get("parentRef"), Some(&text("p")));
    assert_eq!(resolved.get("configRef"), None);
    assert_eq!(reader.asked(), ["parent"], "the configuration was not read");
    let converging = Converging::of(&object()).unwrap();
    let all = finished(resolve_all(&reader, &declared, &converging));
    assert_eq!(all, Err(Unresolved::NotFound));
}

#[test]
fn what_resolved_before_is_remembered_for_the_same_reference() {
    let reader = Readings::new([("parent", Read::Absent)]);
    let declared = declared();
    let before = |reference| Resolution {
        field: "parentRef".to_owned(),
        reference,
        uid: None,
        external: text("p"),
    };
    let same = before(declared[0].reference.clone());
    let resolved = finished(resolve_identity(&reader, &declared, &[same])).unwrap();
    assert_eq!(resolved.get("parentRef"), Some(&text("p")));
    let edited = before(Reference::External(text("q")));
    let lost = finished(resolve_identity(&reader, &declared, &[edited]));
    assert_eq!(lost, Err(Unresolved::NotFound), "another parent is named now");
}

#[test]
fn of_several_failures_the_least_conclusive_is_returned() {
    let converging = Converging::of(&object()).unwrap();
    let unavailable = Readings::new([("parent", Read::Absent), ("config", Read::Unavailable)]);
    let reported = finished(resolve_all(&unavailable, &declared(), &converging));
    assert_eq!(reported, Err(Unresolved::Unavailable));
    let reversed = Readings::new([("parent", Read::Forbidden), ("config", Read::Absent)]);
    let reported = finished(resolve_all(&reversed, &declared(), &converging));
    assert_eq!(reported, Err(Unresolved::Forbidden));
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = || any::<String>().prop_map(Value::from);
    let leaf = prop_oneof![text(), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    let member = prop::sample::select(vec!["external", "name", "namespace", "kind"]);
    let map = prop::collection::btree_map(member, leaf, 0..4);
    prop_oneof![text(), map.prop_map(|it| it.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())]
}

proptest! {
    // Requirement: I-19
    #[test]
    fn garbage_is_refused_or_names_something(value in any_value(), namespace in any::<String>()) {
        if let Ok(it) = Reference::parse(&value, &namespace) {
            prop_assert!(!it.to_text().is_empty());
        }
    }
}
