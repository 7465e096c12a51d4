//! What is wrong with a blueprint before anybody declares from it.
//!
//! Compositions are read as data. Only patch-and-transform is understood; whatever else composes is
//! named as not checked.

use serde_json::Value;
use usher_api::views::{Bundle, Finding};
use usher_domain::blueprint::{CompositeType, InjectionStrategy, MeshRole};
use usher_domain::object::provider::Provider;

/// Everything that is noticed about a bundle.
pub(super) fn lint(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(why) = CompositeType::from_xrd(&bundle.xrd) {
        findings.push(fatal("xrd", why.to_string()));
    }
    if bundle.version.is_empty() || bundle.version.len() > 64 {
        findings.push(fatal("version", "it is empty or longer than 64 characters".to_owned()));
    }
    if bundle.providers.is_empty() {
        findings.push(fatal("providers", "there is none it runs on".to_owned()));
    }
    if bundle.providers == [Provider::Local] {
        // The local world composes by itself.
        return findings;
    }
    let resources = resources(&bundle.composition, &mut findings);
    if resources.is_empty() {
        return findings;
    }
    let patches: Vec<&str> = resources.iter().flat_map(|it| patched_from(it)).collect();
    if bundle.role == MeshRole::Node {
        let path = token_path(bundle.strategy);
        if !patches.iter().any(|it| it.starts_with(path)) {
            let text = format!("no patch takes the bootstrap token from \"{path}\"");
            findings.push(fatal("composition", text));
        }
    }
    for parameter in bundle.schema.parameters() {
        let path = format!("spec.parameters.{}", parameter.name);
        if !patches.iter().any(|it| it.starts_with(&path)) {
            let text = format!("no patch takes parameter \"{}\"", parameter.name);
            findings.push(Finding { fatal: false, at: "composition".to_owned(), text });
        }
    }
    if resources.iter().all(|it| is_never_ready(it)) {
        let text = "no resource can become ready, so nothing ever is".to_owned();
        findings.push(fatal("composition", text));
    }
    findings
}

/// Where a strategy writes the token into the XR.
fn token_path(strategy: InjectionStrategy) -> &'static str {
    match strategy {
        InjectionStrategy::CloudInitUserData => "spec.userData",
        InjectionStrategy::HelmValues => "spec.parameters.helmValues",
        InjectionStrategy::ProviderSecret => "spec.parameters.providerSecret",
    }
}

/// The composed resources that patch-and-transform names; what else composes is told.
fn resources<'a>(composition: &'a Value, findings: &mut Vec<Finding>) -> Vec<&'a Value> {
    let mut found: Vec<&Value> = array(composition.pointer("/spec/resources")).collect();
    for step in array(composition.pointer("/spec/pipeline")) {
        let kind = step.pointer("/input/kind").and_then(Value::as_str);
        if kind == Some("Resources") {
            found.extend(array(step.pointer("/input/resources")));
        } else {
            let name = step.get("step").and_then(Value::as_str).unwrap_or("?");
            let text = format!("step \"{name}\" is not patch-and-transform and was not checked");
            findings.push(Finding { fatal: false, at: "composition.pipeline".to_owned(), text });
        }
    }
    if found.is_empty() {
        let text = "nothing of it was checked".to_owned();
        findings.push(Finding { fatal: false, at: "composition".to_owned(), text });
    }
    found
}

/// The fields of the XR that a composed resource is patched from.
fn patched_from(resource: &Value) -> impl Iterator<Item = &str> {
    array(resource.get("patches")).filter_map(|it| it.get("fromFieldPath").and_then(Value::as_str))
}

/// Whether a composed resource is excluded from readiness.
fn is_never_ready(resource: &Value) -> bool {
    array(resource.get("readinessChecks"))
        .any(|it| it.get("type").and_then(Value::as_str) == Some("None"))
}

fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn fatal(at: &str, text: String) -> Finding {
    Finding { fatal: true, at: at.to_owned(), text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use usher_domain::blueprint::ParameterSchema;

    use super::*;

    fn bundle(composition: Value) -> Bundle {
        Bundle {
            blueprint: "node".parse().unwrap(),
            version: "1".to_owned(),
            xrd: crate::serve::seed::xrd(),
            composition,
            schema: ParameterSchema::new(vec![]).unwrap(),
            strategy: InjectionStrategy::CloudInitUserData,
            role: MeshRole::Node,
            providers: vec![Provider::Hetzner],
        }
    }

    fn composed(from: &str, check: &str) -> Value {
        json!({ "spec": { "pipeline": [{ "step": "one", "input": { "kind": "Resources",
            "resources": [{
                "patches": [{ "fromFieldPath": from }], "readinessChecks": [{ "type": check }],
            }] } }] } })
    }

    fn texts(bundle: &Bundle) -> Vec<(bool, String)> {
        lint(bundle).into_iter().map(|it| (it.fatal, it.text)).collect()
    }

    #[test]
    fn a_sound_bundle_has_nothing_to_say() {
        assert_eq!(texts(&bundle(composed("spec.userData", "MatchCondition"))), []);
    }

    #[test]
    fn a_token_that_reaches_no_machine_is_fatal() {
        let wrong = bundle(composed("spec.parameters.size", "MatchCondition"));
        let text = "no patch takes the bootstrap token from \"spec.userData\"".to_owned();
        assert_eq!(texts(&wrong), [(true, text)]);
        let standalone = Bundle { role: MeshRole::Standalone, ..wrong };
        assert_eq!(texts(&standalone), []);
    }

    #[test]
    fn a_readiness_that_nobody_reaches_is_fatal() {
        let never = bundle(composed("spec.userData", "None"));
        let text = "no resource can become ready, so nothing ever is".to_owned();
        assert_eq!(texts(&never), [(true, text)]);
    }

    #[test]
    fn what_is_not_patch_and_transform_is_named_as_not_checked() {
        let other = bundle(json!({ "spec": { "pipeline": [{ "step": "go" }] } }));
        let told = lint(&other);
        assert!(told.iter().all(|it| !it.fatal) && told[0].text.contains("\"go\""), "{told:?}");
    }

    #[test]
    fn an_xrd_that_is_none_is_fatal() {
        let wrong = Bundle { xrd: json!({}), ..bundle(composed("spec.userData", "x")) };
        assert!(lint(&wrong).iter().any(|it| it.fatal && it.at == "xrd"));
    }
}
