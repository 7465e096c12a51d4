//! The `/scale` subresource of custom resources.

use serde_json::{Value, json};

use super::create::warned;
use super::update::{Edit, update};
use super::{RequestContext, decode, patch};
use crate::core::text;
use crate::http::negotiate::{Form, View};
use crate::http::{Answer, Call};
use crate::kinds::custom::Scale;
use crate::meta::field::{FieldError, Path};
use crate::status::Refusal;

/// Serves a GET of a scale.
pub(super) fn get(ctx: &RequestContext<'_>, form: &Form) -> Result<Answer, Refusal> {
    let object = patch::shown(ctx)?;
    answer(ctx, &scale_of(ctx, &object)?, form)
}

/// Serves a PUT of a scale.
pub(super) async fn put(
    ctx: RequestContext<'_>,
    call: &Call,
    form: &Form,
) -> Result<Answer, Refusal> {
    let scale = decode::body(call, ctx.resource)?.value;
    checked(&ctx, &scale)?;
    write(ctx, &Rescale::Put(scale), form).await
}

/// Serves a PATCH of a scale.
pub(super) async fn patch(
    ctx: RequestContext<'_>,
    call: &Call,
    form: &Form,
) -> Result<Answer, Refusal> {
    write(ctx, &Rescale::Patch(call), form).await
}

async fn write(
    mut ctx: RequestContext<'_>,
    edit: &Rescale<'_>,
    form: &Form,
) -> Result<Answer, Refusal> {
    let (entry, _) = update(&mut ctx, edit).await.map_err(|refusal| warned(&ctx, refusal))?;
    answer(&ctx, &scale_of(&ctx, &entry.value())?, form)
}

/// A write of a scale.
enum Rescale<'a> {
    Put(Value),
    Patch(&'a Call),
}

impl Edit for Rescale<'_> {
    fn edit(&self, ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let scale = match self {
            Self::Put(scale) => scale.clone(),
            Self::Patch(call) => {
                let scale = patch::patch_scale(call, &scale_of(ctx, current)?)?;
                checked(ctx, &scale)?;
                scale
            }
        };
        let mut object = current.clone();
        let replicas = scale.pointer("/spec/replicas").cloned().unwrap_or_else(|| json!(0));
        set(&mut object, &paths(ctx)?.spec, replicas);
        let given = text(&scale, "/metadata/resourceVersion");
        if !given.is_empty() {
            object["metadata"]["resourceVersion"] = json!(given);
        }
        Ok(object)
    }

    fn uid(&self) -> Option<&str> {
        match self {
            Self::Put(scale) => Some(text(scale, "/metadata/uid")),
            Self::Patch(_) => None,
        }
    }
}

fn checked(ctx: &RequestContext<'_>, scale: &Value) -> Result<(), Refusal> {
    let kind = text(scale, "/kind");
    let version = text(scale, "/apiVersion");
    if kind != "Scale" || version != "autoscaling/v1" {
        return Err(Refusal::bad_request(format!(
            "wrong object passed to Scale update: {version}, Kind={kind}"
        )));
    }
    super::update::same_name(ctx.name, scale)?;
    let replicas = scale.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
    if replicas < 0 {
        let path = Path::new(paths(ctx)?.spec.as_str());
        let why = "should be a non-negative integer";
        let error = FieldError::invalid(&path, &json!(replicas), why);
        return Err(Refusal::invalid(ctx.resource, ctx.name, &[error]));
    }
    Ok(())
}

fn paths<'a>(ctx: &RequestContext<'a>) -> Result<&'a Scale, Refusal> {
    let scale = ctx.resource.custom().and_then(|custom| custom.scale.as_ref());
    scale.ok_or_else(|| ctx.not_found())
}

/// The scale of an object.
fn scale_of(ctx: &RequestContext<'_>, object: &Value) -> Result<Value, Refusal> {
    let paths = paths(ctx)?;
    let number = |path: &str| at(object, path).and_then(Value::as_i64);
    let Some(replicas) = number(&paths.spec) else {
        let message = format!("the spec replicas field {:?} does not exist", paths.spec);
        return Err(Refusal::internal(message));
    };
    let metadata = &object["metadata"];
    let mut shown = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(key) {
            shown[key] = value.clone();
        }
    }
    let mut status = json!({"replicas": number(&paths.status).unwrap_or_default()});
    let selector = paths.selector.as_deref().and_then(|path| at(object, path));
    if let Some(selector) = selector.and_then(Value::as_str).filter(|text| !text.is_empty()) {
        status["selector"] = json!(selector);
    }
    let mut spec = json!({});
    if replicas != 0 {
        spec["replicas"] = json!(replicas);
    }
    Ok(json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": spec,
        "status": status,
    }))
}

fn answer(ctx: &RequestContext<'_>, scale: &Value, form: &Form) -> Result<Answer, Refusal> {
    if form.view != View::Whole {
        return Err(Refusal::not_acceptable());
    }
    Ok(Answer::json(200, scale).warn(ctx.warnings.clone()))
}

fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(&path.replace('.', "/"))
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
}
