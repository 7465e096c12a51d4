//! `serviceaccounts/token`.

use std::sync::Arc;

use serde_json::{Value, json};

use super::valid;
use crate::admission::{self, Operation, Reviewed};
use crate::auth::{AUDIENCE, Binding};
use crate::clock;
use crate::core::text;
use crate::http::negotiate::Form;
use crate::http::{Answer, Call};
use crate::kinds::builtin;
use crate::meta::field::{FieldError, Path};
use crate::status::{Refusal, details};
use crate::store::Entry;
use crate::verbs::create::{check_namespace, warned};
use crate::verbs::{RequestContext, decode};
use crate::{managed, view};

const GROUP: &str = "authentication.k8s.io";
const DEFAULT_SECONDS: i64 = 3600;
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;

/// Issues a token of a service account; `ctx` is about the account.
pub(crate) async fn serve(
    mut ctx: RequestContext<'_>,
    call: &Call,
    form: &Form,
) -> Result<Answer, Refusal> {
    let kind = builtin::token_request();
    let place = (ctx.namespace, ctx.name);
    let mut asking = RequestContext::new(ctx.core, &kind, place, ctx.user);
    asking.options = ctx.options.clone();
    let decoded = decode::object(&mut asking, call);
    let mut request = decoded.map_err(|refusal| warned(&asking, refusal))?;
    check_namespace(&kind, ctx.namespace, &request)?;
    managed::on_create(&asking, &mut request);
    ctx.warn(asking.warnings);
    let name = text(&request, "/metadata/name");
    if !name.is_empty() && name != ctx.name {
        let why = "must match the service account name if specified";
        let error = FieldError::invalid_text(&Path::new("metadata.name"), name, why);
        return Err(Refusal::invalid(&kind, ctx.name, &[error]));
    }
    let account = ctx.current().ok_or_else(|| ctx.not_found())?;
    let account = account.value();
    complete(&mut request, &account, ctx.name)?;
    let errors = errors(&request);
    valid(&RequestContext::new(ctx.core, &kind, place, ctx.user), &errors)?;
    let reviewed = Reviewed { operation: Operation::Create, object: Some(&request), old: None };
    let warnings = admission::review(&ctx, &reviewed).await?;
    ctx.warn(warnings);
    let secret = bound(&ctx, &request["spec"]["boundObjectRef"])?;
    let audiences = request["spec"]["audiences"].as_array().into_iter().flatten();
    let audiences: Vec<String> = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
    let now = clock::unix_seconds();
    let until = now.saturating_add(seconds);
    let secret = secret.as_ref().map(|secret| secret.head());
    let secret = secret.as_deref();
    let binding = Binding { account: &account, secret, audiences: &audiences };
    let token = ctx.core.issuer.issue(&binding, (now, until))?;
    request["status"] = json!({"token": token, "expirationTimestamp": clock::written(until)});
    let answer = view::one(201, &kind, &request, (form, &call.query))?;
    Ok(answer.warn(ctx.warnings))
}

/// Fills in what the request leaves out.
fn complete(request: &mut Value, account: &Value, name: &str) -> Result<(), Refusal> {
    let uid = text(account, "/metadata/uid");
    let given = text(request, "/metadata/uid");
    if !given.is_empty() && given != uid {
        let message = format!(
            "Operation cannot be fulfilled on TokenRequest.{GROUP} \"{name}\": the UID in the \
             token request ({given}) does not match the UID of the service account ({uid})"
        );
        let about = details(GROUP, "TokenRequest", name);
        return Err(Refusal::new(409, "Conflict", message).about(about));
    }
    let metadata = &mut request["metadata"];
    metadata["name"] = json!(name);
    metadata["namespace"] = account["metadata"]["namespace"].clone();
    metadata["uid"] = json!(uid);
    metadata["creationTimestamp"] = json!(clock::now());
    let spec = &mut request["spec"];
    if spec["audiences"].as_array().is_none_or(Vec::is_empty) {
        spec["audiences"] = json!([AUDIENCE]);
    }
    if spec["expirationSeconds"].is_null() {
        spec["expirationSeconds"] = json!(DEFAULT_SECONDS);
    }
    if spec["boundObjectRef"].is_null() {
        spec["boundObjectRef"] = Value::Null;
    }
    Ok(())
}

fn errors(request: &Value) -> Vec<FieldError> {
    let path = Path::new("spec.expirationSeconds");
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or_default();
    let why = if seconds < LEAST_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > MOST_SECONDS {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Vec::new();
    };
    vec![FieldError::invalid(&path, &json!(seconds), why)]
}

/// The Secret that the token shall end with.
fn bound(ctx: &RequestContext<'_>, reference: &Value) -> Result<Option<Arc<Entry>>, Refusal> {
    if reference.is_null() {
        return Ok(None);
    }
    let at = |pointer: &str| text(reference, pointer);
    let (version, kind, name) = (at("/apiVersion"), at("/kind"), at("/name"));
    let secrets = ctx.core.resource("", "v1", "secrets");
    let secrets = secrets.filter(|_| version == "v1" && kind == "Secret").ok_or_else(|| {
        Refusal::bad_request(format!("cannot bind token to object of type {version}, Kind={kind}"))
    })?;
    let secret = ctx.core.store.get(&secrets.table, &secrets.key(ctx.namespace, name));
    let secret = secret.ok_or_else(|| Refusal::not_found(&secrets, name))?;
    let head = secret.head();
    let (given, uid) = (at("/uid"), text(&head, "/metadata/uid"));
    if given.is_empty() || given == uid {
        drop(head);
        return Ok(Some(secret));
    }
    let message = format!(
        "Operation cannot be fulfilled on Secret \"{name}\": the UID in the bound object reference \
         ({given}) does not match the UID in record. The object might have been deleted and then \
         recreated"
    );
    Err(Refusal::new(409, "Conflict", message).about(details("", "Secret", name)))
}
