use super::{Refusal, json as operations, merge, strategic};
use crate::arbitrary;
use proptest::prelude::*;
use serde_json::{Value, json};

fn patched(document: &Value, patch: &Value) -> Result<Value, Refusal> {
    operations::apply(document, &operations::parse(patch.to_string().as_bytes())?)
}

// Requirement: AK-14
#[test]
fn a_json_patch_cannot_exceed_the_depth_limit() {
    let document = json!({"a": {}, "x": {}});
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let copies =
        |times| Value::from_iter(vec![json!({"op": "copy", "from": "/a", "path": "/a/b"}); times]);
    let moves = |times| {
        let round = [
            json!({"op": "move", "from": "/a", "path": "/x/y"}),
            json!({"op": "move", "from": "/x", "path": "/a"}),
            json!({"op": "add", "path": "/x", "value": {}}),
        ];
        Value::from_iter(vec![round; times].concat())
    };
    let sets = |op: &str, levels| json!([{"op": op, "path": "/a/b", "value": nested(levels)}]);
    for (fits, refused) in [
        (copies(97), copies(99)),
        (moves(97), moves(99)),
        (sets("add", 98), sets("add", 99)),
        (sets("replace", 98), sets("replace", 99)),
    ] {
        assert!(patched(&document, &fits).is_ok(), "{fits}");
        let given = patched(&document, &refused);
        let deep = "the document would be deeper than 100 levels".to_owned();
        assert_eq!(given, Err(Refusal::DoesNotApply(deep)), "{refused}");
    }
}

// Requirement: AS-2
#[test]
fn json_patch_follows_the_library_of_kubernetes() {
    let document = json!({"a": {"b": 1, "n": null}, "l": ["x", "y"], "~": {"/": 2}});
    let rows = [
        ("test of a missing key", json!([{"op": "test", "path": "/a/c", "value": null}]), None),
        ("test of a null", json!([{"op": "test", "path": "/a/n"}]), None),
        (
            "replace of a missing key",
            json!([{"op": "replace", "path": "/a/c", "value": 2}]),
            Some(("/a/c", json!(2))),
        ),
        (
            "add at the end",
            json!([{"op": "add", "path": "/l/2", "value": "z"}]),
            Some(("/l/2", json!("z"))),
        ),
        (
            "add before the end",
            json!([{"op": "add", "path": "/l/-1", "value": "z"}]),
            Some(("/l/2", json!("z"))),
        ),
        (
            "replace from the end",
            json!([{"op": "replace", "path": "/l/-1", "value": "z"}]),
            Some(("/l/1", json!("z"))),
        ),
        (
            "escapes",
            json!([{"op": "replace", "path": "/~0/~1", "value": 3}]),
            Some(("/~0/~1", json!(3))),
        ),
        (
            "no leading slash",
            json!([{"op": "add", "path": "a/c", "value": 3}]),
            Some(("/c", json!(3))),
        ),
        (
            "copy of a missing key",
            json!([{"op": "copy", "from": "/a/zz", "path": "/c"}]),
            Some(("/c", Value::Null)),
        ),
        (
            "move",
            json!([{"op": "move", "from": "/l/0", "path": "/a/c"}]),
            Some(("/a/c", json!("x"))),
        ),
        ("add without a value", json!([{"op": "add", "path": "/c"}]), Some(("/c", Value::Null))),
    ];
    for (what, patch, expected) in rows {
        let made = patched(&document, &patch).unwrap_or_else(|why| panic!("{what}: {why}"));
        match expected {
            Some((pointer, value)) => assert_eq!(made.pointer(pointer), Some(&value), "{what}"),
            None => assert_eq!(made, document, "{what}"),
        }
    }
}

// Requirement: AS-2
#[test]
fn a_json_patch_that_does_not_apply_changes_nothing() {
    let document = json!({"a": {"b": 1}, "l": ["x"]});
    for patch in [
        json!([{"op": "test", "path": "/a/b", "value": 1.0}]),
        json!([{"op": "test", "path": "/a/b", "value": null}]),
        json!([{"op": "test", "path": "/a/x/y", "value": null}]),
        json!([{"op": "remove", "path": "/a/x"}]),
        json!([{"op": "remove", "path": "/l/1"}]),
        json!([{"op": "remove", "path": "/l/-2"}]),
        json!([{"op": "replace", "path": "/l/1", "value": 1}]),
        json!([{"op": "add", "path": "/l/3", "value": 1}]),
        json!([{"op": "add", "path": "/a/b/c", "value": 1}]),
        json!([{"op": "add", "path": "", "value": 1}]),
        json!([{"op": "add", "value": 1}]),
        json!([{"op": "move", "path": "/c"}]),
        json!([{"op": "move", "from": "/a", "path": "/a/b"}]),
        json!([{"op": "nothing", "path": "/a"}]),
        json!([null]),
    ] {
        let refused = patched(&document, &patch);
        assert!(matches!(refused, Err(Refusal::DoesNotApply(_))), "{patch}: {refused:?}");
    }
}

#[test]
fn an_invalid_patch_body_is_an_error() {
    let rows: [(&[u8], &str); 4] = [
        (b"[1]", "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            b"[{\"op\":1}]",
            "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (b"\"x\"", "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        (b"[", "unexpected end of JSON input"),
    ];
    for (body, why) in rows {
        assert_eq!(operations::parse(body), Err(Refusal::Undecodable(why.to_owned())));
    }
}

// Requirement: AS-3
#[test]
fn copies_of_copies_are_bounded() {
    let mut patch = vec![json!({"op": "add", "path": "/a", "value": "x".repeat(1000)})];
    for _ in 0..40 {
        patch.push(json!({"op": "add", "path": "/b", "value": {}}));
        patch.push(json!({"op": "copy", "from": "/a", "path": "/b/1"}));
        patch.push(json!({"op": "copy", "from": "/a", "path": "/b/2"}));
        patch.push(json!({"op": "move", "from": "/b", "path": "/a"}));
    }
    assert!(matches!(patched(&json!({}), &json!(patch)), Err(Refusal::DoesNotApply(_))));
}

#[test]
fn a_strategic_patch_merges_the_lists_of_metadata() {
    let document = json!({
        "metadata": {
            "labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"],
            "ownerReferences": [{"uid": "1", "name": "one"}, {"uid": "2", "name": "two"}],
        },
        "data": {"k": "v"}, "list": [1, 2],
    });
    let patch = json!({
        "metadata": {
            "labels": {"a": null, "c": "3"},
            "finalizers": ["y", "z"], "$deleteFromPrimitiveList/finalizers": ["x"],
            "$setElementOrder/ownerReferences": [{"uid": "2"}, {"uid": "3"}],
            "ownerReferences": [
                {"uid": "1", "$patch": "delete"},
                {"uid": "2", "controller": true},
                {"uid": "3", "name": "three"},
            ],
        },
        "data": {"$patch": "replace", "n": "w"}, "list": [3],
    });
    let expected = json!({
        "metadata": {
            "labels": {"b": "2", "c": "3"}, "finalizers": ["y", "z"],
            "ownerReferences": [
                {"uid": "2", "name": "two", "controller": true},
                {"uid": "3", "name": "three"},
            ],
        },
        "data": {"n": "w"}, "list": [3],
    });
    assert_eq!(strategic::apply(&document, &patch), Ok(expected));
    let many: Vec<String> = (0..10_001).map(|it| format!("x/{it}")).collect();
    let endless = json!({"metadata": {"finalizers": many}});
    assert!(matches!(strategic::apply(&json!({}), &endless), Err(Refusal::DoesNotApply(_))));
    let keyless = json!({"metadata": {"ownerReferences": [{"name": "x"}]}});
    assert!(matches!(strategic::apply(&document, &keyless), Err(Refusal::DoesNotApply(_))));
}

proptest! {
    // Requirement: AS-4
    #[test]
    fn a_merge_patch_is_idempotent(
        mut document in arbitrary::value(), patch in arbitrary::value(),
    ) {
        merge::apply(&mut document, &patch);
        let once = document.clone();
        merge::apply(&mut document, &patch);
        prop_assert_eq!(document, once);
    }

    // Requirement: AS-15
    #[test]
    fn no_patch_panics(
        document in arbitrary::value(), patch in arbitrary::value(), body in ".{0,30}",
    ) {
        let _ = patched(&document, &patch);
        let _ = strategic::apply(&document, &patch);
        let _ = operations::parse(body.as_bytes());
        let _ = merge::parse(body.as_bytes());
    }

    // Requirement: AS-15
    #[test]
    fn no_operation_panics(
        document in arbitrary::value(),
        steps in prop::collection::vec((
            prop_oneof!["add|remove|replace|move|copy|test"],
            "(/(a|b|spec|-|0|1|-1|~0|~1)){0,3}",
            "(/(a|b|spec|-|0|1|-1)){0,3}",
            arbitrary::value(),
        ), 0..6),
    ) {
        let steps: Vec<Value> = steps.into_iter().map(|(op, path, from, value)| {
            json!({"op": op, "path": path, "from": from, "value": value})
        }).collect();
        let _ = patched(&document, &Value::from(steps));
    }

    #[test]
    fn an_added_value_passes_its_test(
        document in arbitrary::object(), value in arbitrary::value(),
    ) {
        let steps = json!([
            {"op": "add", "path": "/q", "value": value},
            {"op": "test", "path": "/q", "value": value},
        ]);
        let steps = operations::parse(steps.to_string().as_bytes()).unwrap();
        prop_assert!(operations::apply(&document, &steps).is_ok());
    }
}
