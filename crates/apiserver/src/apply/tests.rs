use super::managed::{Managed, restore_times};
use super::set::{Element, Set, written};
use super::typed::{compare, field_set, without};
use super::{Applied, Refusal, Request, Reset, View, apply, builtin, update};
use crate::arbitrary;
use crate::schema::{Schema, default};
use proptest::prelude::*;
use serde_json::{Value, json};

fn schema() -> Schema {
    Schema::parse(&arbitrary::widget_schema()).unwrap()
}

fn view() -> View {
    View::of(&schema())
}

fn by(manager: &str) -> Request<'_> {
    Request {
        manager,
        api_version: "corpus.example/v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
        reset: Reset::Nothing,
    }
}

fn widget(spec: &Value) -> Value {
    json!({"apiVersion": "corpus.example/v1", "kind": "Widget", "metadata": {"name": "a"},
        "spec": spec})
}

fn applied(live: &Value, config: &Value, manager: &str) -> Applied {
    apply(&view(), live, config, by(manager), true).unwrap()
}

#[test]
fn a_field_set_round_trips() {
    let fields = json!({
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
        "f:spec": {
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}},
            "f:tags": {"v:\"a\"": {}, "v:1": {}}, "f:list": {"i:0": {}}, "f:size": {},
        },
    });
    let set = Set::parse(&fields).unwrap();
    assert_eq!(set.to_value(), fields);
    let paths: Vec<String> = set.paths().iter().map(|path| written(path)).collect();
    assert_eq!(
        paths,
        [
            ".metadata.labels",
            ".metadata.labels.a",
            ".spec.list[0]",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].name",
            ".spec.size",
            ".spec.tags[=1]",
            ".spec.tags[=\"a\"]",
        ]
    );
    for bad in
        [json!({"x": {}}), json!({"k:[]": {}}), json!({"v:{": {}}), json!({"i:x": {}}), json!([])]
    {
        assert!(Set::parse(&bad).is_err(), "{bad}");
    }
    assert_eq!(Set::parse(&json!({"z:later": {}})), Ok(Set::default()));
}

// Requirement: AS-12
#[test]
fn fields_removed_with_their_parent_are_restored() {
    let live = widget(&json!({"free": {"mine": {"a": 1, "b": 2}}}));
    let mut managed = update(&view(), &json!({}), &live, by("writer"));
    let mut live = live;
    managed.write(&mut live);
    let said = widget(&json!({"free": {"mine": {"a": 1}}}));
    let live = applied(&live, &said, "one").object;
    let after = applied(&live, &widget(&json!({"size": 2})), "one").object;
    assert_eq!(after["spec"], json!({"free": {"mine": {"a": 1, "b": 2}}, "size": 2}));
    managed = Managed::of(&after);
    assert_eq!(managed.iter().count(), 2);
}

#[test]
fn a_first_apply_removes_nothing() {
    let live = widget(&json!({"order": ["a"], "tags": ["a"]}));
    let after = applied(&live, &widget(&json!({"tags": ["b"]})), "one");
    assert_eq!(after.object["spec"], json!({"order": ["a"], "tags": ["a", "b"]}));
}

// Requirement: AS-13
#[test]
fn old_update_entries_are_merged() {
    let mut object = json!({});
    for number in 0..14 {
        let mut next = object.clone();
        let name = format!("k{number:02}");
        if number == 0 {
            next = widget(&json!({"limits": {}}));
            next["metadata"]["uid"] = json!("u");
        }
        next["spec"]["limits"][&name] = json!("x");
        let manager = format!("m{number:02}");
        let now = format!("2026-01-01T00:00:{number:02}Z");
        let request = Request { now: &now, ..by(&manager) };
        update(&view(), &object, &next, request).write(&mut next);
        object = next;
    }
    let managed = Managed::of(&object);
    let names: Vec<&str> = managed.iter().map(|(id, _)| id.manager.as_str()).collect();
    assert_eq!(names.len(), 10);
    assert_eq!(names.first(), Some(&"ancient-changes"));
    let (_, ancient) = managed.iter().next().unwrap();
    assert_eq!(ancient.time.as_deref(), Some("2026-01-01T00:00:04Z"));
    let limit = |name: &str| ["spec", "limits", name].map(Element::field);
    assert!(ancient.set.has_path(&limit("k00")) && ancient.set.has_path(&limit("k04")));
    assert!(!ancient.set.has_path(&limit("k05")));
}

// Requirement: AS-11
#[test]
fn a_new_time_alone_is_no_change() {
    let mut stored = widget(&json!({"size": 1}));
    update(&view(), &json!({}), &stored, by("one")).write(&mut stored);
    let mut later = stored.clone();
    later["metadata"]["managedFields"][0]["time"] = json!("2027-01-01T00:00:00Z");
    restore_times(&mut later, &stored);
    assert_eq!(later, stored);
    let mut other = widget(&json!({"size": 1}));
    update(&view(), &json!({}), &other, by("two")).write(&mut other);
    let before = other.clone();
    restore_times(&mut other, &stored);
    assert_eq!(other, before);
}

#[test]
fn built_in_kinds_are_merged_by_their_table() {
    let view = builtin::view("", "ConfigMap");
    let live = builtin::empty("", "ConfigMap");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
        "data": {"a": "1", "b": "2"}});
    let one = Request { api_version: "v1", ..by("one") };
    let made = apply(&view, &live, &config, one, false).unwrap().object;
    let mut changed = made.clone();
    changed["metadata"]["uid"] = json!("u");
    let live = changed.clone();
    changed["data"]["a"] = json!("changed");
    update(&view, &live, &changed, Request { api_version: "v1", ..by("corpus") })
        .write(&mut changed);
    let refused = apply(&view, &changed, &config, one, false).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"corpus\" using v1: .data.a"
    );
    let odd =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "dat": {}});
    assert_eq!(
        apply(&view, &changed, &odd, one, true).unwrap_err().to_string(),
        "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .dat: field not \
         declared in schema"
    );
}

#[test]
fn fields_that_always_exist_have_no_owner_at_first() {
    let group = "coordination.k8s.io";
    let config = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    let (view, live) = (builtin::view(group, "Lease"), builtin::empty(group, "Lease"));
    let made = apply(&view, &live, &config, by("one"), false).unwrap().object;
    let managed = Managed::of(&made);
    let managers: Vec<&str> = managed.iter().map(|(id, _)| id.manager.as_str()).collect();
    assert_eq!(managers, ["one"]);
}

#[test]
fn a_created_crd_owns_only_its_own_fields() {
    let view = builtin::view("apiextensions.k8s.io", "CustomResourceDefinition");
    let empty = builtin::empty("apiextensions.k8s.io", "CustomResourceDefinition");
    let created = json!({"metadata": {"name": "ws.x"}, "spec": {"group": "x", "scope": "Cluster",
        "names": {"plural": "ws", "kind": "W"}, "versions": [{"name": "v1"}],
        "conversion": {"strategy": "None"}}});
    let managed = update(&view, &empty, &created, by("one"));
    let (_, owned) = managed.iter().next().unwrap();
    let expected = json!({"f:spec": {
        "f:conversion": {".": {}, "f:strategy": {}}, "f:group": {},
        "f:names": {"f:kind": {}, "f:plural": {}}, "f:scope": {}, "f:versions": {},
    }});
    assert_eq!(owned.set.intersection(&Set::parse(&expected).unwrap()).to_value(), expected);
}

#[test]
fn the_main_resource_does_not_own_the_status() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object"},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}});
    let view = View::of(&Schema::parse(&schema).unwrap());
    let object = json!({"metadata": {"name": "a"}, "spec": {"a": 1}, "status": {"phase": "x"}});
    let owned = |reset, live: &Value| {
        let managed = update(&view, live, &object, Request { reset, ..by("one") });
        managed.iter().map(|(_, owned)| owned.set.to_value()).collect::<Vec<_>>()
    };
    let spec = json!({"f:spec": {".": {}, "f:a": {}}});
    let status = json!({"f:status": {".": {}, "f:phase": {}}});
    assert_eq!(owned(Reset::Status, &json!({})), [spec]);
    assert_eq!(owned(Reset::AllButStatus, &json!({})), [status]);
}

proptest! {
    // Requirement: AS-11
    #[test]
    fn applying_the_same_configuration_twice_changes_nothing(
        live in arbitrary::widget(), config in arbitrary::widget(),
    ) {
        let schema = schema();
        let first = applied(&live, &config, "one");
        let mut object = first.object;
        default::fill(&mut object, &schema);
        let again = applied(&object, &config, "one");
        prop_assert!(!again.changed, "{} then {}", object, again.object);
        prop_assert_eq!(again.object, object);
    }

    #[test]
    fn applied_fields_are_set(
        live in arbitrary::widget(), config in arbitrary::widget(),
    ) {
        let view = view();
        let made = applied(&live, &config, "one").object;
        let said = field_set(&config, &view);
        let there = field_set(&made, &view).union(&containers(&config, &view));
        prop_assert_eq!(said.difference(&there), Set::default());
    }

    // Requirement: AS-10
    #[test]
    fn a_second_applier_gets_a_conflict(
        one in arbitrary::widget(), two in arbitrary::widget(),
    ) {
        let view = view();
        let live = applied(&json!({"metadata": {}}), &one, "one").object;
        match apply(&view, &live, &two, by("two"), false) {
            Ok(made) => {
                let kept = compare(&live, &made.object, &view);
                prop_assert!(kept.modified.intersection(&field_set(&one, &view)).is_empty());
                prop_assert!(kept.removed.intersection(&field_set(&one, &view)).is_empty());
            }
            Err(Refusal::Conflicts(conflicts)) => prop_assert!(!conflicts.is_empty()),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    // Requirement: AS-12
    #[test]
    fn an_empty_apply_keeps_fields_of_other_managers(
        one in arbitrary::widget(), two in arbitrary::widget(),
    ) {
        let live = applied(&json!({"metadata": {}}), &one, "one").object;
        let both = applied(&live, &two, "two").object;
        let nothing = json!({"apiVersion": "corpus.example/v1", "kind": "Widget",
            "metadata": {"name": "a"}});
        let left = applied(&both, &nothing, "one").object;
        let view = view();
        let two_set = field_set(&two, &view);
        let after = field_set(&left, &view);
        prop_assert_eq!(two_set.difference(&after.union(&containers(&two, &view))), Set::default());
    }

    #[test]
    fn sets_obey_the_laws_of_sets(one in arbitrary::object(), two in arbitrary::object()) {
        let (one, two) = (field_set(&one, &View::Deduced), field_set(&two, &View::Deduced));
        prop_assert_eq!(one.union(&two), two.union(&one));
        prop_assert_eq!(one.intersection(&two), two.intersection(&one));
        prop_assert_eq!(one.difference(&two).union(&one.intersection(&two)), one.clone());
        prop_assert!(one.difference(&two).intersection(&two).is_empty());
        prop_assert_eq!(Set::parse(&one.to_value()), Ok(one));
    }

    #[test]
    fn equal_values_do_not_differ_and_others_do(
        one in arbitrary::widget(), two in arbitrary::widget(),
    ) {
        let view = view();
        prop_assert!(compare(&one, &one, &view).is_same());
        prop_assert_eq!(compare(&one, &two, &view).is_same(), same_but_for_order(&one, &two));
    }

    // Requirement: AS-15
    #[test]
    fn arbitrary_objects_and_sets_never_panic(
        live in arbitrary::object(), config in arbitrary::object(), fields in arbitrary::object(),
    ) {
        let view = view();
        let mut live = live;
        if let Some(meta) = live.get_mut("metadata").filter(|meta| meta.is_object()) {
            meta["managedFields"] = json!([{"operation": "Apply", "manager": "one",
                "fieldsV1": fields}]);
        }
        for force in [false, true] {
            let _ = apply(&view, &live, &config, by("one"), force);
        }
        let _ = update(&view, &live, &config, by("one"));
        let _ = without(&live, &field_set(&config, &view), &view);
        let _ = Set::parse(&fields);
    }
}

/// The maps that a configuration leaves empty: they do not show when merged into full ones.
fn containers(config: &Value, view: &View) -> Set {
    let mut found = Set::default();
    for path in field_set(config, view).paths() {
        let fields = path.iter().filter_map(|element| match element {
            Element::Field(name) => Some(name.as_str()),
            Element::Key(_) | Element::Item(_) | Element::Index(_) => None,
        });
        let names: Vec<&str> = fields.collect();
        let said = names.iter().try_fold(config, |value, name| value.get(*name));
        if names.len() == path.len() && said == Some(&json!({})) {
            found.insert(&path);
        }
    }
    found
}

/// Whether two widgets are equal but for the order in sets and keyed lists.
fn same_but_for_order(one: &Value, two: &Value) -> bool {
    let sorted = |object: &Value| {
        let mut object = object.clone();
        for name in ["ports", "tags"] {
            if let Some(list) = object["spec"].get_mut(name).and_then(Value::as_array_mut) {
                list.sort_by_key(|item| {
                    let key = [&item["port"], &item["protocol"]].map(ToString::to_string);
                    (key.concat().replace("null", "\"TCP\""), item.to_string())
                });
            }
        }
        object
    };
    sorted(one) == sorted(two)
}

#[test]
fn an_empty_map_in_a_configuration_removes_nothing() {
    let live = widget(&json!({"tags": []}));
    let config = widget(&json!({}));
    let mut object = applied(&live, &config, "one").object;
    default::fill(&mut object, &schema());
    let again = applied(&object, &config, "one");
    assert_eq!(again.object, object);
}
