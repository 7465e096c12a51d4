use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::direct::fixture::{START, installation, key, object};

fn context() -> AcceptContext {
    AcceptContext {
        installation: installation(),
        kind: "example.org/Membership".to_owned(),
        heard_for: Duration::from_secs(40),
    }
}

#[test]
fn an_object_without_our_finalizer_is_witnessed_from_the_start() {
    let free = Object { finalizers: vec!["other/finalizer".to_owned()], ..object() };
    let Accepted { resource, event } = accept(key(), &free, &context(), START).unwrap();
    assert_eq!(event, Event::Accepted);
    assert!(resource.is_witnessed() && resource.is_grace_over(START));
    assert_eq!(resource.phase(), Phase::Pending);
}

// Requirement: I-16
#[test]
fn an_object_with_our_finalizer_was_ours_before() {
    let Accepted { resource, .. } = accept(key(), &object(), &context(), START).unwrap();
    assert!(!resource.is_witnessed());
    let later = START.after(Duration::from_secs(40));
    assert!(!resource.is_grace_over(START), "requests of the lost ledger may be in flight");
    assert!(resource.is_grace_over(later));
}

#[test]
fn a_key_that_is_none_is_refused() {
    let bad = ObjectKey { name: "Not A Name".to_owned(), ..key() };
    let refusal = accept(bad, &object(), &context(), START).unwrap_err();
    assert_eq!(refusal, Refusal::InvalidInput("name".to_owned()));
}

#[test]
fn metadata_is_read_as_an_api_server_writes_it() {
    let value = json!({
        "metadata": {
            "namespace": "ns", "name": "web", "uid": "uid-1",
            "deletionTimestamp": "2030-01-01T00:00:00Z",
            "finalizers": ["usher.dev/direct", "example.org/hold"],
            "annotations": { "usher.dev/deletion-policy": "abandon", "usher.dev/identity": "{}" },
        },
        "status": { "identity": "s" },
    });
    let (read_key, read_object) = read(&value).unwrap();
    assert_eq!(read_key, key());
    let expected = Object {
        deleting: true,
        finalizers: vec!["usher.dev/direct".to_owned(), "example.org/hold".to_owned()],
        policy: Some("abandon".to_owned()),
        stamp: Some("{}".to_owned()),
        status: Some("s".to_owned()),
        ..object()
    };
    assert_eq!(read_object, expected);
    let bare = json!({ "metadata": {
        "namespace": "ns", "name": "web", "uid": "uid-1", "deletionTimestamp": null,
        "finalizers": null, "annotations": null,
    }, "status": { "identity": null } });
    let empty = Object { finalizers: vec![], ..object() };
    assert_eq!(read(&bare).unwrap().1, empty);
}

// Requirement: I-25
#[test]
fn metadata_of_another_shape_is_refused_by_its_member() {
    let good = json!({ "namespace": "ns", "name": "web", "uid": "uid-1" });
    let cases = [
        ("uid", json!(7), "uid"),
        ("name", json!(null), "name"),
        ("namespace", json!([]), "namespace"),
        ("deletionTimestamp", json!(true), "deletionTimestamp"),
        ("finalizers", json!("usher.dev/direct"), "finalizers"),
        ("finalizers", json!([1]), "finalizers"),
        ("annotations", json!([]), "annotations"),
        ("annotations", json!({ "usher.dev/identity": {} }), "usher.dev/identity"),
    ];
    for (member, value, what) in cases {
        let mut metadata = good.clone();
        metadata[member] = value;
        let refusal = read(&json!({ "metadata": metadata })).unwrap_err();
        assert_eq!(refusal, Refusal::MetadataMalformed(what.to_owned()));
    }
    for value in [json!(null), json!({}), json!({ "metadata": 1 })] {
        let refusal = read(&value).unwrap_err();
        assert_eq!(refusal, Refusal::MetadataMalformed("metadata".to_owned()));
    }
    let status = read(&json!({ "metadata": good, "status": { "identity": 3 } })).unwrap_err();
    assert_eq!(status, Refusal::MetadataMalformed("status.identity".to_owned()));
}

proptest! {
    // Requirement: I-25
    #[test]
    fn garbage_is_refused_or_read(texts in prop::collection::vec(any::<String>(), 6)) {
        let value = json!({
            "metadata": {
                "namespace": texts[0], "name": texts[1], "uid": texts[2],
                "finalizers": [texts[3]],
                "annotations": { "usher.dev/identity": texts[4] },
            },
            "status": { "identity": texts[5] },
        });
        let (key, object) = read(&value).unwrap();
        if let Ok(accepted) = accept(key, &object, &context(), START) {
            prop_assert_eq!(&accepted.resource.object().uid.0, &texts[2]);
        }
    }
}
