//! Questions: reviews of users, permissions and tokens, which are answered and never stored.

mod access;
mod token;

use serde_json::{Value, json};

use crate::admission::{self, Operation, Reviewed};
use crate::auth::{self, AUDIENCE};
use crate::clock;
use crate::core::text;
use crate::http::negotiate::Form;
use crate::http::{Answer, Call};
use crate::kinds::Review;
use crate::meta::field::FieldError;
use crate::status::Refusal;
use crate::verbs::create::{check_namespace, warned};
use crate::verbs::{RequestContext, decode};
use crate::{managed, view};
pub(crate) use token::serve as serve_token;

/// Answers a question.
pub(crate) async fn serve(
    mut ctx: RequestContext<'_>,
    call: &Call,
    (form, review): (&Form, Review),
) -> Result<Answer, Refusal> {
    let mut question = decode::object(&mut ctx, call).map_err(|refusal| warned(&ctx, refusal))?;
    check_namespace(ctx.resource, ctx.namespace, &question)?;
    if !question["metadata"].is_object() {
        question["metadata"] = json!({});
    }
    if ctx.resource.namespaced {
        question["metadata"]["namespace"] = json!(ctx.namespace);
    }
    managed::on_create(&ctx, &mut question);
    let answer = answer(&ctx, review, &question)?;
    let reviewed = Reviewed { operation: Operation::Create, object: Some(&question), old: None };
    let warnings = admission::review(&ctx, &reviewed).await?;
    ctx.warn(warnings);
    let answer = view::one(201, ctx.resource, &answer, (form, &call.query))?;
    Ok(answer.warn(ctx.warnings))
}

fn answer(ctx: &RequestContext<'_>, review: Review, question: &Value) -> Result<Value, Refusal> {
    match review {
        Review::SelfSubject => Ok(fresh(
            ctx,
            &json!({"creationTimestamp": clock::now()}),
            json!({"status": {"userInfo": ctx.user.info()}}),
        )),
        Review::SelfSubjectAccess | Review::SubjectAccess | Review::LocalSubjectAccess => {
            access::answer(ctx, review, question)
        }
        Review::SelfSubjectRules => {
            let namespace = text(question, "/spec/namespace");
            if namespace.is_empty() {
                return Err(Refusal::bad_request("no namespace on request"));
            }
            let (resources, paths) = auth::rules(ctx.core, ctx.user, namespace);
            let status = json!({
                "resourceRules": resources, "nonResourceRules": paths, "incomplete": false,
            });
            Ok(fresh(ctx, &json!({}), json!({"spec": {}, "status": status})))
        }
        Review::Token => of_token(ctx, question),
        Review::TokenRequest => Err(Refusal::no_such_resource()),
    }
}

/// An answer that does not repeat the question.
fn fresh(ctx: &RequestContext<'_>, metadata: &Value, rest: Value) -> Value {
    let mut answer = json!({
        "kind": ctx.resource.kind,
        "apiVersion": ctx.resource.api_version(),
        "metadata": metadata,
    });
    if let (Some(map), Value::Object(rest)) = (answer.as_object_mut(), rest) {
        map.extend(rest);
    }
    answer
}

fn of_token(ctx: &RequestContext<'_>, question: &Value) -> Result<Value, Refusal> {
    let token = text(question, "/spec/token");
    if token.is_empty() {
        return Err(Refusal::bad_request("token is required for TokenReview in authentication"));
    }
    let wanted = question.pointer("/spec/audiences").and_then(Value::as_array);
    let wanted: Vec<&str> = wanted.into_iter().flatten().filter_map(Value::as_str).collect();
    let wanted = if wanted.is_empty() { vec![AUDIENCE] } else { wanted };
    let mut answer = question.clone();
    answer["status"] = match auth::of_token(ctx.core, token) {
        Some(bearer) if wanted.iter().any(|audience| bearer.is_for(audience)) => {
            let audiences: Vec<&&str> =
                wanted.iter().filter(|audience| bearer.is_for(audience)).collect();
            json!({"authenticated": true, "user": bearer.user.info(), "audiences": audiences})
        }
        Some(bearer) => {
            let why = format!(
                "[invalid bearer token, token audiences {:?} is invalid for the target audiences \
                 {wanted:?}]",
                bearer.audiences
            );
            json!({"user": {}, "error": why})
        }
        None => json!({"user": {}, "error": "invalid bearer token"}),
    };
    Ok(answer)
}

/// Refuses a question with invalid fields.
fn valid(ctx: &RequestContext<'_>, errors: &[FieldError]) -> Result<(), Refusal> {
    if errors.is_empty() { Ok(()) } else { Err(Refusal::invalid(ctx.resource, "", errors)) }
}
