//! Updates the `managedFields` of written objects.

use serde_json::{Value, json};

use crate::apply::{self, Element, Request, Reset, View, builtin, managed};
use crate::clock;
use crate::kinds::{Origin, Resource};
use crate::normalize;
use crate::status::Refusal;
use crate::verbs::{RequestContext, Subresource, decode};

/// Records the field manager of a new object.
pub(crate) fn on_create(ctx: &RequestContext<'_>, object: &mut Value) {
    let now = clock::now();
    let version = ctx.resource.api_version();
    let live = nothing(ctx.resource);
    with_view(ctx.resource, |view| {
        let request = request(ctx, &version, &now);
        apply::update(view, &live, object, request).write(object);
    });
}

/// Records the field manager of changed fields.
pub(crate) fn on_update(ctx: &RequestContext<'_>, old: &Value, next: &mut Value) {
    let now = clock::now();
    let version = ctx.resource.api_version();
    let scale = ctx.resource.custom().and_then(|custom| custom.scale.as_ref());
    if let (Subresource::Scale, Some(scale)) = (ctx.sub, scale) {
        let names = || scale.spec.split('.').filter(|name| !name.is_empty());
        let path: Vec<Element> = names().map(Element::field).collect();
        let count = |object: &Value| {
            let found = names().try_fold(object, |place, name| place.get(name));
            found.and_then(Value::as_i64).unwrap_or_default()
        };
        let counts = (count(old), count(next));
        apply::rescale(old, &path, counts, request(ctx, &version, &now)).write(next);
        return;
    }
    with_view(ctx.resource, |view| {
        let request = request(ctx, &version, &now);
        apply::update(view, old, next, request).write(next);
    });
}

/// Whether a write of a status carries fields of other types than the schema's. Those beside the
/// status do not count otherwise.
pub(crate) fn is_untyped(ctx: &RequestContext<'_>, next: &Value) -> bool {
    let custom = ctx.resource.custom().filter(|_| ctx.sub == Subresource::Status);
    let wrong = custom.map(|custom| apply::typed::violations(next, &custom.view));
    wrong.into_iter().flatten().any(|why| !why.contains("duplicate entries for key"))
}

/// Removes the managers, as Kubernetes does where it cannot track them.
pub(crate) fn forget(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Keeps the recorded times if nothing else has changed.
pub(crate) fn keep_times(old: &Value, next: &mut Value) {
    if managed::is_same_object(next, old) {
        managed::restore_times(next, old);
    }
}

/// Applies a configuration to an object.
pub(crate) fn apply(
    ctx: &mut RequestContext<'_>,
    current: Option<&Value>,
    config: &Value,
) -> Result<Value, Refusal> {
    let now = clock::now();
    let version = ctx.resource.api_version();
    let live = current.map_or_else(|| json!({}), |current| unsaid(ctx.resource, current));
    let force = ctx.options.force;
    let applied = with_view(ctx.resource, |view| {
        apply::apply(view, &live, config, request(ctx, &version, &now), force)
    });
    let mut object = applied.map_err(refused)?.object;
    let unknown = normalize::normalize_applied(ctx.resource, &mut object)
        .map_err(|why| undecodable(ctx.resource, config, &why))?;
    if let Some(strict) = decode::complain(ctx, Vec::new(), unknown) {
        return Err(Refusal::bad_request(strict));
    }
    Ok(object)
}

/// The refusal of an applied object that is none of its kind: an internal error, as in Kubernetes.
fn undecodable(resource: &Resource, config: &Value, why: &str) -> Refusal {
    if resource.custom().is_some() {
        return Refusal::bad_request(why);
    }
    let group = if resource.group.is_empty() { "/" } else { "" };
    let kind = format!("{group}{}, Kind={}", resource.api_version(), resource.kind);
    Refusal::bare(format!(
        "failed to convert new object ({}) to proper version: unable to convert unstructured \
         object to {kind}: error decoding from json: {why}",
        apply::described(config)
    ))
}

/// An object without the empty maps that its kind always has: no manager owns them.
fn unsaid(resource: &Resource, current: &Value) -> Value {
    let mut live = current.clone();
    if let (Origin::Builtin(_), Some(map)) = (&resource.origin, live.as_object_mut()) {
        map.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
    live
}

fn refused(refusal: apply::Refusal) -> Refusal {
    let message = refusal.to_string();
    match refusal {
        apply::Refusal::Managers => Refusal::bad_request(message),
        apply::Refusal::Untyped(..) => Refusal::bare(message),
        apply::Refusal::Conflicts(conflicts) => {
            let causes: Vec<Value> = conflicts
                .iter()
                .map(|conflict| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": conflict.message(),
                        "field": conflict.field,
                    })
                })
                .collect();
            Refusal::new(409, "Conflict", message).about(json!({"causes": causes}))
        }
    }
}

fn request<'a>(ctx: &'a RequestContext<'_>, version: &'a str, now: &'a str) -> Request<'a> {
    let (subresource, reset) = match ctx.sub {
        Subresource::Main if ctx.resource.has_status() => ("", Reset::Status),
        Subresource::Main => ("", Reset::Nothing),
        Subresource::Status => ("status", Reset::AllButStatus),
        Subresource::Scale => ("scale", Reset::Status),
        Subresource::Finalize => ("finalize", Reset::Nothing),
        Subresource::Token => ("token", Reset::Nothing),
    };
    Request { manager: &ctx.options.manager, api_version: version, subresource, now, reset }
}

/// An object without any applied field.
fn nothing(resource: &Resource) -> Value {
    match &resource.origin {
        Origin::Custom(_) => json!({}),
        Origin::Builtin(_) => builtin::empty(&resource.group, &resource.kind),
    }
}

fn with_view<T>(resource: &Resource, work: impl FnOnce(&View) -> T) -> T {
    match &resource.origin {
        Origin::Custom(custom) => work(&custom.view),
        Origin::Builtin(_) => work(&builtin::view(&resource.group, &resource.kind)),
    }
}
