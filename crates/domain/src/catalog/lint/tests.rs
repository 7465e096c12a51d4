use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::blueprint::ParameterSchema;

fn xrd(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": "nodes.example.org" },
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": { "kind": "Node", "plural": "nodes" },
            "versions": [{ "name": "v1", "served": true, "referenceable": true, "schema": schema }],
        },
    })
}

fn bundle(composition: Value) -> Bundle {
    Bundle {
        blueprint: "node".parse().unwrap(),
        version: "1".to_owned(),
        xrd: xrd(&json!({})),
        composition,
        schema: ParameterSchema::new(vec![]).unwrap(),
        strategy: InjectionStrategy::CloudInitUserData,
        role: MeshRole::Node,
        providers: vec![Provider::Hetzner],
    }
}

fn with_size(composition: Value) -> Bundle {
    let schema = json!({ "parameters": [{ "name": "size", "type": "string" }] });
    Bundle { schema: serde_json::from_value(schema).unwrap(), ..bundle(composition) }
}

fn composed(resources: &Value) -> Value {
    json!({ "spec": { "pipeline": [
        { "step": "compose", "input": { "kind": "Resources", "resources": resources } },
    ] } })
}

fn patched(patches: &Value) -> Bundle {
    bundle(composed(&json!([{ "name": "server", "patches": patches }])))
}

fn checked(checks: &Value) -> Bundle {
    bundle(composed(&json!([{
        "name": "server", "patches": [{ "fromFieldPath": "spec.userData" }],
        "readinessChecks": checks,
    }])))
}

fn findings(bundle: &Bundle) -> Vec<(bool, String)> {
    lint(bundle).into_iter().map(|it| (it.fatal, it.text)).collect()
}

fn no_token() -> String {
    "no patch takes the bootstrap token from \"spec.userData\"".to_owned()
}

// Requirement: X-11
#[test]
fn a_token_reaches_a_machine_by_every_way_a_patch_can_take() {
    for patch in [
        json!({ "fromFieldPath": "spec.userData" }),
        json!({ "type": "FromCompositeFieldPath", "fromFieldPath": "spec[\"userData\"]" }),
        json!({ "fromFieldPath": "spec" }),
        json!({ "fromFieldPath": "spec.userData.text[0]" }),
        json!({ "type": "CombineFromComposite",
            "combine": { "variables": [{ "fromFieldPath": "spec.userData" }] } }),
    ] {
        assert_eq!(findings(&patched(&json!([patch]))), [], "{patch}");
    }
    let set = json!({ "spec": {
        "patchSets": [{ "name": "all", "patches": [{ "fromFieldPath": "spec.userData" }] }],
        "resources": [{ "name": "a", "patches": [{ "type": "PatchSet", "patchSetName": "all" }] }],
    } });
    assert_eq!(findings(&bundle(set)), []);
}

// Requirement: X-11
#[test]
fn a_token_that_reaches_no_machine_is_fatal() {
    for patch in [
        json!({ "fromFieldPath": "spec.userDataHash" }),
        json!({ "type": "ToCompositeFieldPath", "fromFieldPath": "spec.userData" }),
        json!({ "type": "PatchSet", "patchSetName": "nowhere" }),
        json!({ "type": "CombineFromComposite" }),
    ] {
        let wrong = patched(&json!([patch]));
        assert_eq!(findings(&wrong), [(true, no_token())], "{patch}");
        assert_eq!(findings(&Bundle { role: MeshRole::Standalone, ..wrong }), [], "{patch}");
    }
}

// Requirement: X-11
#[test]
fn a_field_that_the_xrd_does_not_declare_is_pruned() {
    let takes = composed(&json!([{ "name": "a", "patches": [{ "fromFieldPath": "spec" }] }]));
    let schema = |spec: Value| json!({ "openAPIV3Schema": { "properties": { "spec": spec } } });
    let declared = |spec| Bundle { xrd: xrd(&schema(spec)), ..with_size(takes.clone()) };
    let token = "\"spec.userData\" is not declared, so the bootstrap token is pruned".to_owned();
    let size = "\"spec.parameters.size\" is not declared and is pruned".to_owned();
    assert_eq!(findings(&declared(json!({}))), [(true, token), (false, size)]);
    let open = json!({ "x-kubernetes-preserve-unknown-fields": true });
    assert_eq!(findings(&declared(open)), []);
    let full = json!({ "properties": { "userData": {},
        "parameters": { "additionalProperties": { "type": "string" } } } });
    assert_eq!(findings(&declared(full)), []);
}

#[test]
fn a_parameter_that_no_patch_takes_is_a_warning() {
    let patches = json!([{ "fromFieldPath": "spec.userData" },
        { "fromFieldPath": "spec.parameters.sizes" }]);
    let bundle = with_size(composed(&json!([{ "name": "a", "patches": patches }])));
    assert_eq!(findings(&bundle), [(false, "no patch takes parameter \"size\"".to_owned())]);
}

// Requirement: X-11
#[test]
fn a_readiness_check_that_can_never_pass_is_fatal() {
    for (check, why) in [
        (json!({ "type": "Maybe" }), "there is no check of type \"Maybe\""),
        (json!({}), "there is no check of type \"\""),
        (json!({ "type": "NonEmpty" }), "a check of type \"NonEmpty\" says no \"fieldPath\""),
        (
            json!({ "type": "MatchString", "fieldPath": "status.state" }),
            "a check of type \"MatchString\" says no \"matchString\"",
        ),
        (
            json!({ "type": "MatchCondition", "matchCondition": null }),
            "a check of type \"MatchCondition\" says no \"matchCondition\"",
        ),
    ] {
        let text = format!("resource \"server\" can never be ready: {why}");
        assert_eq!(findings(&checked(&json!([check]))), [(true, text)]);
    }
    let ready = json!([{ "type": "MatchString", "fieldPath": "a", "matchString": "b" },
        { "type": "MatchTrue", "fieldPath": "a" }, { "type": "None" }]);
    assert_eq!(findings(&checked(&ready)), []);
}

#[test]
fn a_composition_that_waits_for_nothing_is_noted() {
    let text = "no resource is waited for: it is ready as soon as it is composed".to_owned();
    assert_eq!(findings(&checked(&json!([{ "type": "None" }]))), [(false, text)]);
}

// Requirement: X-11
#[test]
fn what_is_not_patch_and_transform_is_named_as_not_checked() {
    let other = json!({ "spec": { "pipeline": [{ "step": "go" }] } });
    let step = "step \"go\" is not patch-and-transform and was not checked".to_owned();
    let nothing = "nothing of it was checked".to_owned();
    assert_eq!(findings(&bundle(other)), [(false, step.clone()), (false, nothing)]);
    let mut both = composed(&json!([{ "name": "a" }]));
    both["spec"]["pipeline"].as_array_mut().unwrap().push(json!({ "step": "go" }));
    assert_eq!(findings(&bundle(both)), [(false, step), (false, no_token())]);
}

#[test]
fn what_the_local_world_runs_needs_no_composition() {
    let local = Bundle { providers: vec![Provider::Local], ..bundle(json!({})) };
    assert_eq!(findings(&local), []);
}

#[test]
fn a_bundle_without_an_xrd_a_version_or_a_provider_is_fatal() {
    let sound = || checked(&json!([]));
    let at = |bundle: Bundle| lint(&bundle).into_iter().find(|it| it.fatal).map(|it| it.at);
    assert_eq!(at(sound()), None);
    assert_eq!(at(Bundle { xrd: json!({}), ..sound() }).as_deref(), Some("xrd"));
    assert_eq!(at(Bundle { version: "9".repeat(65), ..sound() }).as_deref(), Some("version"));
    assert_eq!(at(Bundle { providers: vec![], ..sound() }).as_deref(), Some("providers"));
}

proptest! {
    #[test]
    fn no_field_path_is_too_strange(path in ".*", check in ".*") {
        let patches = json!([{ "fromFieldPath": path }]);
        let checks = json!([{ "type": check, "fieldPath": path }]);
        let resource = json!([{ "patches": patches, "readinessChecks": checks }]);
        let _ = lint(&bundle(composed(&resource)));
    }
}
