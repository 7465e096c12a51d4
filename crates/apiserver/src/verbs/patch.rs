//! PATCH in its four formats.

use serde_json::{Value, json};

use super::create::{check_namespace, warned};
use super::json::Parsed;
use super::options::FieldValidation;
use super::update::{Edit, same_name, unnamed, update};
use super::{RequestContext, Subresource, decode, json as text_json, scale, written};
use crate::apply::typed::go_text;
use crate::core::text;
use crate::http::negotiate::Form;
use crate::http::{Answer, Call};
use crate::meta::field::{FieldError, Path};
use crate::normalize::Decoder;
use crate::patch::{self, go_type};
use crate::status::Refusal;
use crate::{managed, normalize, view};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Serves a PATCH.
pub(crate) async fn serve(
    mut ctx: RequestContext<'_>,
    call: &Call,
    form: &Form,
) -> Result<Answer, Refusal> {
    let edit: Box<dyn Edit + Send> = match call.content_type.as_str() {
        JSON => Box::new(Patch { kind: Kind::Json, body: call.body.clone() }),
        MERGE => Box::new(Patch { kind: Kind::Merge, body: call.body.clone() }),
        STRATEGIC if ctx.resource.custom().is_none() || ctx.sub == Subresource::Scale => {
            Box::new(Patch { kind: Kind::Strategic, body: call.body.clone() })
        }
        APPLY => Box::new(config(&ctx, call)?),
        _ => return Err(unsupported(&ctx)),
    };
    if ctx.sub == Subresource::Scale {
        return scale::patch(ctx, call, form).await;
    }
    let patched = update(&mut ctx, edit.as_ref()).await;
    let (entry, made) = patched.map_err(|refusal| warned(&ctx, refusal))?;
    written(if made { 201 } else { 200 }, &ctx, &entry, (form, call))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Merge,
    Strategic,
}

struct Patch {
    kind: Kind,
    body: bytes::Bytes,
}

impl Edit for Patch {
    fn edit(&self, ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let laid =
            apply_patch(self.kind, &self.body, current).map_err(|why| refused(self.kind, &why))?;
        let mut value = laid.value;
        if text(&value, "/apiVersion") != ctx.resource.api_version() {
            return Err(wrong_kind(ctx, &value));
        }
        let raw = match self.kind {
            // As Kubernetes, which has not encoded the result yet.
            Kind::Strategic => {
                let patch = patch::strategic::parse(&self.body);
                patch.map(|patch| go_text(&patch::strategic::plain(patch))).unwrap_or_default()
            }
            Kind::Json | Kind::Merge => value.to_string(),
        };
        let (kind, version) = (text(&value, "/kind"), ctx.resource.version.as_str());
        let handled =
            format!("{kind} in version \"{version}\" cannot be handled as a {}", ctx.resource.kind);
        if ctx.resource.custom().is_none() && kind != ctx.resource.kind {
            return Err(Refusal::bad_request(handled));
        }
        let decoder = if self.kind == Kind::Strategic { Decoder::Maps } else { Decoder::Json };
        let unknown = normalize::normalize_as(ctx.resource, &mut value, decoder)
            .map_err(|why| undecodable(&raw, &why))?;
        if let Some(strict) = decode::complain(ctx, laid.duplicates, unknown) {
            return Err(undecodable(&raw, &format!("strict decoding error: {strict}")));
        }
        decode::kind_matches(ctx.resource, &value)?;
        if text(&value, "/metadata/name").is_empty() {
            return Err(unnamed(ctx.name));
        }
        same_name(ctx.name, &value)?;
        check_namespace(ctx.resource, ctx.namespace, &value)?;
        Ok(value)
    }
}

/// Applies a patch to an object.
fn apply_patch(kind: Kind, body: &[u8], current: &Value) -> Result<Parsed, patch::Refusal> {
    let doubled = || text_json::parse(body).map(|parsed| parsed.duplicates).unwrap_or_default();
    let value = match kind {
        Kind::Json => patch::json::apply(current, &patch::json::parse(body)?)?,
        Kind::Merge => {
            let patch = patch::merge::parse(body)?;
            let mut value = current.clone();
            patch::merge::apply(&mut value, &patch);
            value
        }
        Kind::Strategic => patch::strategic::apply(current, &patch::strategic::parse(body)?)?,
    };
    let duplicates = match kind {
        Kind::Json => Vec::new(),
        Kind::Merge | Kind::Strategic => doubled(),
    };
    Ok(Parsed { value, duplicates })
}

/// Applies a patch to a scale.
pub(super) fn patch_scale(call: &Call, current: &Value) -> Result<Value, Refusal> {
    let kind = match call.content_type.as_str() {
        JSON => Kind::Json,
        STRATEGIC => Kind::Strategic,
        _ => Kind::Merge,
    };
    apply_patch(kind, &call.body, current)
        .map(|parsed| parsed.value)
        .map_err(|why| refused(kind, &why))
}

fn refused(kind: Kind, refusal: &patch::Refusal) -> Refusal {
    match refusal {
        patch::Refusal::Undecodable(why) if kind == Kind::Strategic => Refusal::bad_request(why),
        patch::Refusal::Undecodable(_) => Refusal::bad_request(refusal.to_string()),
        patch::Refusal::TooMany { .. } => {
            let message = format!("Request entity too large: {refusal}");
            Refusal::new(413, "RequestEntityTooLarge", message)
        }
        patch::Refusal::Contradictory(why) => Refusal::bare(why),
        patch::Refusal::DoesNotApply(_) => {
            let message = "the server rejected our request due to an error in our request";
            Refusal::new(422, "Invalid", message).about(json!({}))
        }
    }
}

/// The patched object cannot be decoded.
fn undecodable(raw: &str, why: &str) -> Refusal {
    let error = FieldError::invalid_text(&Path::new("patch"), raw, why);
    Refusal::invalid_kind("", "", "", &[error])
}

fn wrong_kind(ctx: &RequestContext<'_>, value: &Value) -> Refusal {
    let given = text(value, "/apiVersion");
    let expected = ctx.resource.api_version();
    Refusal::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

fn unsupported(ctx: &RequestContext<'_>) -> Refusal {
    let types = if ctx.resource.custom().is_some() {
        format!("{JSON}, {MERGE}, {APPLY}")
    } else {
        format!("{JSON}, {MERGE}, {STRATEGIC}, {APPLY}")
    };
    Refusal::unsupported_media(&types)
}

/// Decodes an applied configuration.
fn config(ctx: &RequestContext<'_>, call: &Call) -> Result<Apply, Refusal> {
    let parsed = decode::yaml(&call.body)
        .map_err(|why| Refusal::bad_request(format!("error decoding YAML: {why}")))?;
    let config = parsed.value;
    if !config.is_object() {
        let found = go_type(&config);
        return Err(Refusal::bad_request(format!(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot \
             unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    same_kind(ctx, &config)?;
    if config.pointer("/metadata/managedFields").is_some() {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    let doubled = decode::yaml_duplicate(&call.body, &parsed.duplicates);
    Ok(Apply { config, doubled })
}

fn same_kind(ctx: &RequestContext<'_>, config: &Value) -> Result<(), Refusal> {
    let given = text(config, "/apiVersion");
    let kind = text(config, "/kind");
    if given == ctx.resource.api_version() && kind == ctx.resource.kind {
        return Ok(());
    }
    let shown = if given.is_empty() { "/" } else { given };
    Err(Refusal::bad_request(format!("invalid object type: {shown}, Kind={kind}")))
}

struct Apply {
    config: Value,
    /// What is wrong with a key that is given twice.
    doubled: Option<String>,
}

impl Apply {
    /// Applies the configuration. A key that is given twice is refused in strict mode, and in warn
    /// mode a warning.
    fn onto(
        &self,
        ctx: &mut RequestContext<'_>,
        current: Option<&Value>,
    ) -> Result<Value, Refusal> {
        let applied = managed::apply(ctx, current, &self.config)?;
        same_name(ctx.name, &self.config)?;
        check_namespace(ctx.resource, ctx.namespace, &self.config)?;
        let Some(why) = &self.doubled else { return Ok(applied) };
        match ctx.options.validation {
            FieldValidation::Ignore => Ok(applied),
            FieldValidation::Warn => {
                // As Kubernetes, without the first line.
                ctx.warn(why.lines().skip(1).map(|it| it.trim().to_owned()));
                Ok(applied)
            }
            FieldValidation::Strict => Err(Refusal::bad_request(format!(
                "error strict decoding patch: error converting YAML to JSON: {why}"
            ))),
        }
    }
}

impl Edit for Apply {
    fn edit(&self, ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        self.onto(ctx, Some(current))
    }

    fn missing(&self, ctx: &mut RequestContext<'_>) -> Result<Value, Refusal> {
        if ctx.sub != Subresource::Main {
            return Err(ctx.not_found());
        }
        let uid = text(&self.config, "/metadata/uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object \
                 was found"
            );
            return Err(Refusal::conflict(ctx.resource, ctx.name, &why));
        }
        if text(&self.config, "/metadata/name").is_empty() {
            return Err(unnamed(ctx.name));
        }
        self.onto(ctx, None)
    }

    fn manages(&self) -> bool {
        true
    }
}

/// The current object in the version of the request.
pub(super) fn shown(ctx: &RequestContext<'_>) -> Result<Value, Refusal> {
    let entry = ctx.current().ok_or_else(|| ctx.not_found())?;
    Ok(view::to_version(ctx.resource, &entry.value()).into_owned())
}
