//! Rights to set owners, policies and validating webhooks.
//!
//! Owners are checked first, then policies are evaluated. Then all matching hooks are called
//! concurrently; the first denial in the order of the configurations counts. All of it happens
//! before the write, without a lock.

mod call;
mod matching;
mod owners;
mod policy;
mod service;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::clock;
use crate::core::{POLICY_BINDINGS, WEBHOOKS, text};
use crate::kinds::Builtin;
use crate::status::Refusal;
use crate::verbs::{RequestContext, Subresource};
use crate::view;
pub(crate) use call::Webhooks;
use matching::Verdict;

/// The operation of an admission review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    /// The deletion of one object of a collection.
    DeleteOfMany,
}

/// The write under review.
pub(crate) struct Reviewed<'a> {
    pub(crate) operation: Operation,
    pub(crate) object: Option<&'a Value>,
    pub(crate) old: Option<&'a Value>,
}

impl Operation {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete | Self::DeleteOfMany => "DELETE",
        }
    }
}

/// Checks the owners, evaluates every matching policy and calls every matching webhook; returns
/// their warnings.
pub(crate) async fn review(
    ctx: &RequestContext<'_>,
    reviewed: &Reviewed<'_>,
) -> Result<Vec<String>, Refusal> {
    owners::check(ctx, reviewed)?;
    let configurations = ctx.core.store.list(WEBHOOKS, "");
    let bindings = ctx.core.store.list(POLICY_BINDINGS, "");
    let none = configurations.objects.is_empty() && bindings.objects.is_empty();
    if none || ctx.resource.builtin().is_some_and(is_exempt) {
        return Ok(Vec::new());
    }
    let mut warnings = Vec::new();
    let mut request = None;
    if !bindings.objects.is_empty() {
        let request = request.get_or_insert_with(|| self::request(ctx, reviewed));
        let bindings: Vec<&Value> = bindings.objects.values().map(|entry| &entry.value).collect();
        warnings = policy::review(ctx, reviewed, (&bindings, request))?;
    }
    let mut calls = Vec::new();
    for entry in configurations.objects.values() {
        for hook in entry.value["webhooks"].as_array().into_iter().flatten() {
            if !matching::wanted(ctx, reviewed, hook) {
                continue;
            }
            let request = request.get_or_insert_with(|| self::request(ctx, reviewed));
            match matching::conditions(hook, request) {
                Verdict::Skip => continue,
                Verdict::Call => {}
                Verdict::Refuse(why) => {
                    return Err(Refusal::forbidden(ctx.resource, ctx.name, &why));
                }
            }
            let mut request = request.clone();
            request["uid"] = json!(clock::uid()?);
            let core = Arc::clone(ctx.core);
            let hook = hook.clone();
            calls.push(tokio::spawn(async move { core.webhooks.ask(&core, &hook, request).await }));
        }
    }
    let mut refused = None;
    for call in calls {
        let answer = call.await.map_err(|_| Refusal::internal("a webhook call panicked"))?;
        warnings.extend(answer.warnings);
        if let Some(refusal) = answer.refusal {
            refused.get_or_insert(refusal);
        }
    }
    match refused {
        None => Ok(warnings),
        Some(mut refusal) => {
            refusal.warnings.extend(warnings);
            Err(refusal)
        }
    }
}

/// What is admitted without a review: else a wrong policy or webhook could not be removed.
fn is_exempt(builtin: Builtin) -> bool {
    matches!(
        builtin,
        Builtin::ValidatingAdmissionPolicy
            | Builtin::ValidatingAdmissionPolicyBinding
            | Builtin::ValidatingWebhookConfiguration
    )
}

/// The request of an admission review, without its uid.
fn request(ctx: &RequestContext<'_>, reviewed: &Reviewed<'_>) -> Value {
    let resource = ctx.resource;
    let (group, version) = (&resource.group, &resource.version);
    let mut kind = json!({"group": group, "version": version, "kind": resource.kind});
    if ctx.sub == Subresource::Token {
        let of = "authentication.k8s.io";
        kind = json!({"group": of, "version": "v1", "kind": "TokenRequest"});
    }
    let plural = json!({"group": group, "version": version, "resource": resource.plural});
    let shown =
        |value: Option<&Value>| value.map(|value| view::to_version(resource, value).into_owned());
    let mut request = json!({
        "uid": "",
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        "operation": reviewed.operation.word(),
        "userInfo": ctx.user.info(),
        "object": shown(reviewed.object),
        "oldObject": shown(reviewed.old),
        "dryRun": ctx.options.dry_run,
        "options": options(ctx, reviewed.operation),
    });
    let named = reviewed.object.map_or(ctx.name, |object| text(object, "/metadata/name"));
    if reviewed.operation != Operation::DeleteOfMany && !named.is_empty() {
        request["name"] = json!(named);
    }
    let space = if resource.is_builtin(Builtin::Namespace) { named } else { ctx.namespace };
    if !space.is_empty() {
        request["namespace"] = json!(space);
    }
    let face = subresource(ctx.sub);
    if !face.is_empty() {
        request["subResource"] = json!(face);
        request["requestSubResource"] = json!(face);
    }
    request
}

/// The options of the operation: a patch or PUT that creates has those of a creation, and a patch
/// that changes those of an update.
fn options(ctx: &RequestContext<'_>, operation: Operation) -> Value {
    let word = match operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete | Operation::DeleteOfMany => "DeleteOptions",
    };
    let mut options = ctx.options.given.clone();
    if options.is_null() {
        options = json!({"kind": word, "apiVersion": "meta.k8s.io/v1"});
    }
    options["kind"] = json!(word);
    if let Some(options) = options.as_object_mut() {
        options.remove("force");
    }
    options
}

fn subresource(sub: Subresource) -> &'static str {
    match sub {
        Subresource::Main => "",
        Subresource::Status => "status",
        Subresource::Scale => "scale",
        Subresource::Finalize => "finalize",
        Subresource::Token => "token",
    }
}
