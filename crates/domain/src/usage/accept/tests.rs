use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::usage::fixture::usage_key;

fn document() -> Value {
    json!({
        "apiVersion": "protection.usher.dev/v1alpha1",
        "kind": "Usage",
        "metadata": { "name": "u", "namespace": "ns" },
        "spec": {
            "of": {
                "apiVersion": "example.org/v1",
                "kind": "Database",
                "resourceRef": { "name": "db" },
            },
            "by": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "resourceSelector": {
                    "matchLabels": { "app": "a" },
                    "matchExpressions": [{ "key": "tier", "operator": "Exists" }],
                    "matchControllerRef": true,
                    "selection": "All",
                },
            },
        },
    })
}

/// The document with another value at a place.
fn with(pointer: &str, value: Value) -> Value {
    let mut document = document();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = document.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    if value.is_null() {
        parent.remove(name);
    } else {
        parent.insert(name.to_owned(), value);
    }
    document
}

fn refused(pointer: &str, value: Value) -> Refusal {
    spec(&usage_key("u"), &with(pointer, value)).unwrap_err()
}

#[test]
fn a_declaration_is_read_in_full() {
    assert_eq!(key(&document()), Ok(usage_key("u")));
    let spec = spec(&usage_key("u"), &document()).unwrap();
    let requirement = |key: &str, operator, values: &[&str]| Requirement {
        key: key.parse().unwrap(),
        operator,
        values: values.iter().map(|it| (*it).to_owned()).collect(),
    };
    let labels =
        vec![requirement("app", Operator::In, &["a"]), requirement("tier", Operator::Exists, &[])];
    let by = Reference {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: "ns".to_owned(),
        pick: Pick::Match(Selector { labels, controller: true, selection: Selection::All }),
    };
    let of = crate::usage::fixture::reference("db");
    let expected = Spec { of, by: Some(by), reason: None, resolve: Resolve::Once, replay: true };
    assert_eq!(spec, expected);
}

#[test]
fn a_deletion_is_replayed_by_default_only_where_a_user_is_declared() {
    let read = |document: &Value| spec(&usage_key("u"), document).unwrap().replay;
    assert!(read(&document()));
    let mut reasoned = with("/spec/by", Value::Null);
    reasoned["spec"]["reason"] = json!("production");
    assert!(!read(&reasoned));
    reasoned["spec"]["replayDeletion"] = json!(true);
    assert!(read(&reasoned));
    assert!(!read(&with("/spec/replayDeletion", json!(false))));
}

#[test]
fn another_document_is_no_usage() {
    for (pointer, value) in [
        ("/apiVersion", json!("protection.crossplane.io/v1beta1")),
        ("/kind", json!("Database")),
        ("/kind", Value::Null),
    ] {
        let refusal = key(&with(pointer, value)).unwrap_err();
        assert_eq!(refusal.code(), "usage_kind");
    }
    let refusal = key(&with("/metadata/namespace", Value::Null)).unwrap_err();
    assert_eq!(refusal, invalid("metadata.namespace", ""));
    let refusal = key(&with("/kind", json!("ClusterUsage"))).unwrap_err();
    assert_eq!(refusal, invalid("metadata.namespace", "ns"));
    assert_eq!(key(&with("/metadata/name", json!(".."))), Err(invalid("metadata.name", "..")));
}

// Requirement: G-21
#[test]
fn hostile_references_are_refused_with_their_place() {
    for text in ["", "a/b/c", "/v1", "Example.org/v1", "example.org/", "v 1", "v1\0", "../v1"] {
        let refusal = refused("/spec/of/apiVersion", json!(text));
        assert_eq!(refusal, invalid("spec.of.apiVersion", text));
    }
    for text in ["", "1x", "Data base", "Ä", "a/b", &"x".repeat(64)] {
        assert_eq!(refused("/spec/of/kind", json!(text)), invalid("spec.of.kind", text));
    }
    for text in ["", ".", "..", "a/b", "a%2fb", "a b", "é", &"x".repeat(254)] {
        let refusal = refused("/spec/of/resourceRef", json!({ "name": text }));
        assert_eq!(refusal, invalid("spec.of.resourceRef.name", text));
    }
    let refusal = refused("/spec/of/resourceRef", json!({ "name": "x", "namespace": "A" }));
    assert_eq!(refusal, invalid("spec.of.namespace", "A"));
    assert_eq!(refused("/spec/of", json!(7)), invalid("spec.of", "7"));
    assert_eq!(refused("/spec/of", Value::Null), Refusal::FieldMissing("spec.of"));
    assert_eq!(refused("/spec", Value::Null), Refusal::FieldMissing("spec"));
    let both = json!({ "matchControllerRef": true });
    let ambiguous = Refusal::ReferenceAmbiguous("spec.of");
    assert_eq!(refused("/spec/of/resourceSelector", both), ambiguous);
    assert_eq!(refused("/spec/of/resourceRef", Value::Null), ambiguous);
}

// Requirement: G-21
#[test]
fn hostile_selectors_are_refused_with_their_place() {
    let selector = |value| refused("/spec/by/resourceSelector", value);
    let labels = "spec.by.resourceSelector.matchLabels";
    let expressions = "spec.by.resourceSelector.matchExpressions";
    let one = |value: Value| selector(json!({ "matchExpressions": [value] }));
    let empty = Refusal::SelectorEmpty("spec.by");
    assert_eq!(selector(json!({})), empty);
    assert_eq!(selector(json!({ "matchLabels": {}, "matchExpressions": [] })), empty);
    assert_eq!(selector(json!({ "matchLabels": { "a b": "c" } })), invalid(labels, "a b"));
    assert_eq!(selector(json!({ "matchLabels": { "a": "c d" } })), invalid(labels, "c d"));
    assert_eq!(selector(json!({ "matchLabels": { "a": 1 } })), invalid(labels, "1"));
    assert_eq!(selector(json!({ "matchLabels": [] })), invalid(labels, "a list"));
    assert_eq!(one(json!(1)), invalid(expressions, ""));
    assert_eq!(one(json!({ "key": "a", "operator": "Near" })), invalid(expressions, "Near"));
    assert_eq!(one(json!({ "key": "a", "operator": "In" })), invalid(expressions, "In"));
    let valued = json!({ "key": "a", "operator": "Exists", "values": ["x"] });
    assert_eq!(one(valued), invalid(expressions, "Exists"));
    let number = json!({ "key": "a", "operator": "In", "values": [1] });
    assert_eq!(one(number).code(), "usage_field_invalid");
    let many = vec!["x"; VALUES_MAX + 1];
    let many = json!({ "key": "a", "operator": "In", "values": many });
    assert_eq!(one(many), Refusal::TooMany { field: expressions, max: VALUES_MAX });
    let exists = json!({ "key": "a", "operator": "Exists" });
    let many = vec![exists; REQUIREMENTS_MAX + 1];
    let field = "spec.by.resourceSelector";
    let refusal = Refusal::TooMany { field, max: REQUIREMENTS_MAX };
    assert_eq!(selector(json!({ "matchExpressions": many })), refusal);
    let chosen = json!({ "matchControllerRef": true, "selection": "Some" });
    assert_eq!(selector(chosen), invalid(field, "Some"));
    let controlled = json!({ "matchControllerRef": "yes" });
    assert_eq!(selector(controlled), invalid(field, "yes"));
}

#[test]
fn a_usage_needs_a_purpose() {
    assert_eq!(refused("/spec/by", Value::Null), Refusal::PurposeMissing);
    let mut blank = with("/spec/by", Value::Null);
    blank["spec"]["reason"] = json!("  ");
    assert_eq!(spec(&usage_key("u"), &blank), Err(Refusal::PurposeMissing));
    let long = "x".repeat(REASON_MAX + 1);
    assert_eq!(refused("/spec/reason", json!(long)).code(), "usage_field_invalid");
    assert_eq!(refused("/spec/resolve", json!("Twice")), invalid("spec.resolve", "Twice"));
}

/// The scope of an object, for the matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Here,
    There,
    Beside,
}

/// What is answered to a Usage of this kind with such references.
fn answer(kind: UsageKind, of: Place, by: Option<Place>, consents: bool) -> &'static str {
    let key = match kind {
        UsageKind::Usage => usage_key("u"),
        UsageKind::ClusterUsage => UsageKey { kind, namespace: String::new(), ..usage_key("u") },
    };
    let placed = |name: &str, place| {
        let namespace = match place {
            Place::Here => "ns",
            Place::There => "other",
            Place::Beside => "",
        };
        Reference { namespace: namespace.to_owned(), ..crate::usage::fixture::reference(name) }
    };
    let scope = |place| match place {
        Place::Here | Place::There => Some(Scope::Namespaced),
        Place::Beside => Some(Scope::Cluster),
    };
    let spec = Spec {
        of: placed("db", of),
        by: by.map(|it| placed("app", it)),
        reason: Some("r".to_owned()),
        resolve: Resolve::Once,
        replay: false,
    };
    let around = Surroundings { of: scope(of), by: by.and_then(scope), consents };
    examine(&key, &spec, &around).err().map_or("accepted", |it| it.code())
}

// Requirement: G-16
#[test]
fn every_pair_of_scopes_is_accepted_or_refused() {
    use Place::{Beside, Here, There};
    use UsageKind::{ClusterUsage, Usage};
    let cases = [
        (Here, None, "accepted"),
        (Here, Some(Here), "accepted"),
        (Here, Some(Beside), "accepted"),
        (Here, Some(There), "usage_user_elsewhere"),
        (There, None, "usage_user_required"),
        (There, Some(Here), "accepted"),
        (There, Some(Beside), "accepted"),
        (There, Some(There), "usage_user_elsewhere"),
        (Beside, None, "usage_scope_unsupported"),
        (Beside, Some(Here), "usage_scope_unsupported"),
        (Beside, Some(Beside), "usage_scope_unsupported"),
        (Beside, Some(There), "usage_scope_unsupported"),
    ];
    for (of, by, expected) in cases {
        assert_eq!(answer(Usage, of, by, true), expected, "{of:?} by {by:?}");
        assert_eq!(answer(ClusterUsage, of, by, false), "accepted", "{of:?} by {by:?}");
        let unasked =
            if expected == "accepted" && of == There { "usage_consent_missing" } else { expected };
        assert_eq!(answer(Usage, of, by, false), unasked, "{of:?} by {by:?} without consent");
    }
}

#[test]
fn a_place_that_does_not_fit_the_kind_is_refused() {
    let of = |namespace: &str| Reference {
        namespace: namespace.to_owned(),
        ..crate::usage::fixture::reference("db")
    };
    let judge = |of: Reference, scope| {
        let key =
            UsageKey { kind: UsageKind::ClusterUsage, namespace: String::new(), ..usage_key("u") };
        let reason = Some("r".to_owned());
        let spec = Spec { of, by: None, reason, resolve: Resolve::Once, replay: false };
        examine(&key, &spec, &Surroundings { of: scope, by: None, consents: false })
    };
    let field = "spec.of";
    assert_eq!(judge(of(""), Some(Scope::Namespaced)), Err(Refusal::NamespaceMissing(field)));
    assert_eq!(judge(of("a"), Some(Scope::Cluster)), Err(Refusal::NamespaceSuperfluous(field)));
    let kind = "example.org/Database".to_owned();
    assert_eq!(judge(of("a"), None), Err(Refusal::KindUnknown(kind)));
    for group in [UNGUARDED_GROUP, PROTECTION_GROUP] {
        let it = Reference { group: group.to_owned(), ..of("a") };
        let kind = shortened(&it.group_kind());
        assert_eq!(judge(it, Some(Scope::Namespaced)), Err(Refusal::KindUnsupported(kind)));
    }
}

// Requirement: G-17
#[test]
fn nothing_is_accepted_that_uses_itself() {
    let reference = crate::usage::fixture::reference("db");
    let spec = Spec {
        of: reference.clone(),
        by: Some(reference),
        reason: None,
        resolve: Resolve::Once,
        replay: true,
    };
    let scope = Some(Scope::Namespaced);
    let around = Surroundings { of: scope, by: scope, consents: true };
    let object = "example.org/Database ns/db".to_owned();
    assert_eq!(examine(&usage_key("u"), &spec, &around), Err(Refusal::UsesItself(object)));
}

// Requirement: G-16
#[test]
fn consent_names_namespaces_or_all() {
    assert!(is_consented(Some("a, ns"), "ns"));
    assert!(is_consented(Some("*"), "ns"));
    for annotation in [None, Some(""), Some("nsx"), Some("n"), Some("a,b")] {
        assert!(!is_consented(annotation, "ns"), "{annotation:?}");
    }
    assert!(!is_consented(Some(""), ""), "empty is not equal");
}

// Requirement: G-20
#[test]
fn usages_of_crossplane_are_read_by_name_and_nothing_else_is() {
    let it = |api_version: &str, by: Value| {
        json!({
            "apiVersion": api_version,
            "kind": "ClusterUsage",
            "metadata": { "name": "x" },
            "spec": {
                "of": { "apiVersion": "v1", "kind": "Node", "resourceRef": { "name": "n" } },
                "by": by,
            },
        })
    };
    let node = ObjectKey {
        group: String::new(),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: "n".to_owned(),
    };
    let selecting = json!({ "apiVersion": "v1", "kind": "Pod", "resourceSelector": {} });
    let read = foreign(&it("protection.crossplane.io/v1beta1", selecting));
    assert_eq!(read, Ok((Some(node), None)));
    let refusal = foreign(&it("protection.usher.dev/v1alpha1", Value::Null)).unwrap_err();
    assert_eq!(refusal.code(), "usage_kind");
    let hostile = json!({ "apiVersion": "a/b/c", "kind": "X", "resourceRef": { "name": "x" } });
    let refusal = foreign(&it("apiextensions.crossplane.io/v1beta1", hostile)).unwrap_err();
    assert_eq!(refusal, invalid("spec.by.apiVersion", "a/b/c"));
}

/// Any document of few levels, with the words that a declaration has.
fn any_value() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "",
        "a",
        "In",
        "Exists",
        "First",
        "All",
        "Once",
        "v1",
        "example.org/v1",
        "a/b/c",
        "..",
        "Database",
        "\0",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "spec",
        "of",
        "by",
        "reason",
        "apiVersion",
        "kind",
        "resourceRef",
        "resourceSelector",
        "name",
        "namespace",
        "matchLabels",
        "matchExpressions",
        "matchControllerRef",
        "selection",
        "key",
        "operator",
        "values",
        "resolve",
        "replayDeletion",
        "metadata",
        "a",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

proptest! {
    // Requirement: G-21
    #[test]
    fn any_document_is_read_or_refused(
        pointer in prop::sample::select(vec![
            "/spec", "/spec/of", "/spec/by", "/spec/of/resourceRef", "/spec/by/resourceSelector",
            "/spec/by/resourceSelector/matchExpressions", "/spec/by/resourceSelector/matchLabels",
            "/spec/resolve", "/spec/reason", "/metadata", "/kind",
        ]),
        value in any_value(),
    ) {
        let document = with(pointer, value);
        let _ = key(&document);
        let _ = foreign(&document);
        if let Err(refusal) = spec(&usage_key("u"), &document) {
            prop_assert!(refusal.to_string().chars().count() < 256, "{refusal}");
        }
    }
}
