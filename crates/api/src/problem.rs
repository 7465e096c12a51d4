//! Failures as RFC 9457 problems.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use usher_wire::http::{PROBLEM_TYPE, Problem};

use crate::codes;
use crate::ports::{Failure, Refused};
use crate::refusal::Refusal;

/// Sent when a dependency does not answer.
const RETRY_AFTER_SECONDS: &str = "1";

pub(crate) fn answer(failure: &Failure) -> Response<Body> {
    let refused = into_refused(failure);
    let status = codes::status(refused.code).unwrap_or(500);
    let problem = Problem {
        kind: codes::page(refused.code),
        title: refused.code.replace('_', " "),
        status,
        code: refused.code.to_owned(),
        detail: refused.text,
    };
    // Strings and a number always serialize.
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

/// What the caller sees of a failure: bugs and unknown codes only as `internal`.
fn into_refused(failure: &Failure) -> Refused {
    match failure {
        Failure::Refused(refused) if codes::status(refused.code).is_some() => refused.clone(),
        Failure::Refused(_) | Failure::Broken { .. } => Refusal::Internal.into(),
        Failure::Unavailable { what } => Refusal::Unavailable { what: what.clone() }.into(),
    }
}

pub(crate) fn written(status: u16, kind: &'static str, text: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
