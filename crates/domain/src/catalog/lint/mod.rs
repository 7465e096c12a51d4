//! What is wrong with a blueprint before a resource is declared from it.
//!
//! A Composition is read as data. Only patch-and-transform is understood; whatever else composes is
//! named as not checked, and what such a step may still do is never called wrong.

mod composition;
#[cfg(test)]
mod tests;

use serde_json::Value;

use self::composition::{Composed, Readiness};
use super::Bundle;
use crate::blueprint::{CompositeType, InjectionStrategy, MeshRole};
use crate::object::provider::Provider;

const VERSION_CHARACTERS: usize = 64;

/// What was noticed about a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether it prevents publishing.
    pub fatal: bool,
    /// Where, as a path into the bundle.
    pub at: String,
    /// What, in a sentence.
    pub text: String,
}

/// Everything that is noticed about a bundle.
pub fn lint(bundle: &Bundle) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(why) = CompositeType::from_xrd(&bundle.xrd) {
        findings.push(fatal("xrd", why.to_string()));
    }
    if bundle.version.is_empty() || bundle.version.len() > VERSION_CHARACTERS {
        let text = format!("it is empty or longer than {VERSION_CHARACTERS} characters");
        findings.push(fatal("version", text));
    }
    if bundle.providers.is_empty() {
        findings.push(fatal("providers", "there is none it runs on".to_owned()));
    }
    if bundle.providers == [Provider::Local] {
        // The local world composes by itself.
        return findings;
    }
    let composed = composition::read(&bundle.composition);
    for step in &composed.unread {
        let text = format!("step \"{step}\" is not patch-and-transform and was not checked");
        findings.push(note("composition.pipeline", text));
    }
    if composed.resources.is_empty() {
        findings.push(note("composition", "nothing of it was checked".to_owned()));
        return findings;
    }
    token(bundle, &composed, &mut findings);
    parameters(bundle, &composed, &mut findings);
    readiness(&composed, &mut findings);
    findings
}

/// The bootstrap token must get through the XRD and into a composed field.
fn token(bundle: &Bundle, composed: &Composed<'_>, findings: &mut Vec<Finding>) {
    match bundle.role {
        MeshRole::Standalone => return,
        MeshRole::Node => {}
    }
    let path = token_path(bundle.strategy);
    if !is_declared(&bundle.xrd, &path) {
        let text =
            format!("\"{}\" is not declared, so the bootstrap token is pruned", shown(&path));
        findings.push(fatal("xrd", text));
    }
    if composed.takes(&path) {
        return;
    }
    let text = format!("no patch takes the bootstrap token from \"{}\"", shown(&path));
    findings.push(Finding { fatal: composed.unread.is_empty(), ..note("composition", text) });
}

fn parameters(bundle: &Bundle, composed: &Composed<'_>, findings: &mut Vec<Finding>) {
    for parameter in bundle.schema.parameters() {
        let path = ["spec", "parameters", parameter.name.as_str()];
        if !is_declared(&bundle.xrd, &path) {
            let text = format!("\"{}\" is not declared and is pruned", shown(&path));
            findings.push(note("xrd", text));
        }
        if !composed.takes(&path) {
            let text = format!("no patch takes parameter \"{}\"", parameter.name);
            findings.push(note("composition", text));
        }
    }
}

fn readiness(composed: &Composed<'_>, findings: &mut Vec<Finding>) {
    for resource in &composed.resources {
        if let Readiness::Never { why } = &resource.readiness {
            let text = format!("resource \"{}\" can never be ready: {why}", resource.name);
            findings.push(fatal("composition", text));
        }
    }
    let at_once = |it: &composition::Resource<'_>| it.readiness == Readiness::AtOnce;
    if composed.resources.iter().all(at_once) {
        let text = "no resource is waited for: it is ready as soon as it is composed".to_owned();
        findings.push(note("composition", text));
    }
}

/// Where a strategy writes the token into the XR.
fn token_path(strategy: InjectionStrategy) -> Vec<&'static str> {
    match strategy {
        InjectionStrategy::CloudInitUserData => vec!["spec", "userData"],
        InjectionStrategy::HelmValues => vec!["spec", "parameters", "helmValues"],
        InjectionStrategy::ProviderSecret => vec!["spec", "parameters", "providerSecret"],
    }
}

/// Whether an API server keeps a field of the XR: an XRD without a schema leaves that open.
fn is_declared(xrd: &Value, path: &[&str]) -> bool {
    let served = composition::array(xrd.pointer("/spec/versions"))
        .find(|it| it.get("served").and_then(Value::as_bool) == Some(true));
    let Some(mut schema) = served.and_then(|it| it.pointer("/schema/openAPIV3Schema")) else {
        return true;
    };
    for part in path {
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
            return true;
        }
        let property = schema.get("properties").and_then(|it| it.get(*part));
        match property.or_else(|| schema.get("additionalProperties")) {
            Some(inner) => schema = inner,
            None => return false,
        }
    }
    true
}

fn shown(path: &[&str]) -> String {
    path.join(".")
}

fn fatal(at: &str, text: String) -> Finding {
    Finding { fatal: true, at: at.to_owned(), text }
}

fn note(at: &str, text: String) -> Finding {
    Finding { fatal: false, at: at.to_owned(), text }
}
