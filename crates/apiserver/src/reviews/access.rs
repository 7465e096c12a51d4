//! Whether a user may do something.

use serde_json::{Value, json};

use super::valid;
use crate::auth::{self, Action, User};
use crate::core::text;
use crate::kinds::Review;
use crate::meta::field::{FieldError, Path};
use crate::status::Refusal;
use crate::verbs::RequestContext;

pub(super) fn answer(
    ctx: &RequestContext<'_>,
    review: Review,
    question: &Value,
) -> Result<Value, Refusal> {
    valid(ctx, &errors(review, question))?;
    let asked = if review == Review::SelfSubjectAccess {
        ctx.user.clone()
    } else {
        user(&question["spec"])
    };
    let decision = auth::decide(ctx.core, &asked, &action(&question["spec"]));
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    let mut answer = question.clone();
    answer["status"] = status;
    Ok(answer)
}

fn errors(review: Review, question: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let (resource, other) = (
        question.pointer("/spec/resourceAttributes").filter(|value| !value.is_null()),
        question.pointer("/spec/nonResourceAttributes").filter(|value| !value.is_null()),
    );
    if resource.is_some() == other.is_some() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid(&spec, other.unwrap_or(&Value::Null), why));
    }
    let no_group = question.pointer("/spec/groups").and_then(Value::as_array);
    let no_group = no_group.is_none_or(Vec::is_empty);
    if review != Review::SelfSubjectAccess && text(question, "/spec/user").is_empty() && no_group {
        let why = "at least one of user or group must be specified";
        errors.push(FieldError::invalid_text(&spec.child("user"), "", why));
    }
    let local = review == Review::LocalSubjectAccess;
    let metadata = question["metadata"].as_object().into_iter().flatten();
    let mut given = metadata.filter(|(key, value)| {
        let ours = key.as_str() == "managedFields" || local && key.as_str() == "namespace";
        !ours && !value.is_null()
    });
    if given.next().is_some() {
        let why = if local { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid(&Path::new("metadata"), &question["metadata"], why));
    }
    let namespace = text(question, "/spec/resourceAttributes/namespace");
    if local && resource.is_some() && namespace != text(question, "/metadata/namespace") {
        let path = Path::new("spec.resourceAttributes.namespace");
        errors.push(FieldError::invalid_text(&path, namespace, "must match metadata.namespace"));
    }
    if let (true, Some(other)) = (local, other) {
        let path = Path::new("spec.nonResourceAttributes");
        errors.push(FieldError::invalid(&path, other, "disallowed on this kind of request"));
    }
    errors
}

/// The user of a question about another user.
fn user(spec: &Value) -> User {
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups: Vec<&str> = groups.filter_map(Value::as_str).collect();
    let mut user = User::with_groups(text(spec, "/user"), &groups);
    text(spec, "/uid").clone_into(&mut user.uid);
    user
}

fn action(spec: &Value) -> Action<'_> {
    let at = |pointer: &str| text(spec, pointer);
    if spec["resourceAttributes"].is_object() {
        return Action::Resource {
            verb: at("/resourceAttributes/verb"),
            group: at("/resourceAttributes/group"),
            plural: at("/resourceAttributes/resource"),
            sub: at("/resourceAttributes/subresource"),
            namespace: at("/resourceAttributes/namespace"),
            name: at("/resourceAttributes/name"),
        };
    }
    Action::Path {
        verb: at("/nonResourceAttributes/verb"),
        path: at("/nonResourceAttributes/path"),
    }
}
