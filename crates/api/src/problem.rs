//! Refusals and troubles as RFC 9457 writes them.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use usher_wire::http::{PROBLEM_TYPE, Problem};

use crate::codes;
use crate::ports::{Failure, Refused};
use crate::refusal::Refusal;

/// How soon to ask again when somebody who is needed does not answer.
const RETRY_AFTER_SECONDS: &str = "1";

/// The answer to a request that was not granted.
pub(crate) fn answer(failure: &Failure) -> Response<Body> {
    let refused = told(failure);
    let status = codes::status(refused.code).unwrap_or(500);
    let problem = Problem {
        kind: codes::page(refused.code),
        title: refused.code.replace('_', " "),
        status,
        code: refused.code.to_owned(),
        detail: refused.text,
    };
    // Texts and a number can always be written.
    let text = serde_json::to_vec(&problem).unwrap_or_default();
    let mut response = written(status, PROBLEM_TYPE, text);
    let extra = match status {
        401 => Some((header::WWW_AUTHENTICATE, "Bearer")),
        503 => Some((header::RETRY_AFTER, RETRY_AFTER_SECONDS)),
        _ => None,
    };
    if let Some((name, value)) = extra {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// What is told of a failure: a bug is logged and not told, and a code nobody knows is a bug.
pub(crate) fn told(failure: &Failure) -> Refused {
    match failure {
        Failure::Refused(refused) if codes::status(refused.code).is_some() => refused.clone(),
        Failure::Refused(_) | Failure::Broken { .. } => Refusal::Internal.into(),
        Failure::Unavailable { what } => Refusal::Unavailable { what: what.clone() }.into(),
    }
}

/// An answer with a body.
pub(crate) fn written(status: u16, kind: &'static str, text: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
