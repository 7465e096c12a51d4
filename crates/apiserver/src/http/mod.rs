//! HTTP requests and responses.

pub(crate) mod body;
pub(crate) mod negotiate;
pub(crate) mod query;
pub(crate) mod route;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod tls;

use bytes::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use hyper::{Method, Response, StatusCode};
use serde_json::Value;

use crate::auth::User;
use crate::faults::Fault;
use crate::serialize::write_object;
use crate::status::Refusal;
use body::AnswerBody;
pub(crate) use query::Query;

/// A request with its complete body.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
    pub(crate) user: User,
    /// The injected fault.
    pub(crate) fault: Fault,
}

/// A response before it is serialized.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) content_type: String,
    pub(crate) body: AnswerBody,
    pub(crate) warnings: Vec<String>,
    pub(crate) retry_after: Option<u64>,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// The total length of the warnings of a response.
const WARNINGS_MAX: usize = 4096;
/// The length to which each warning is cut when there are more.
const WARNING_CUT: usize = 256;

impl Answer {
    /// A JSON response.
    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::bytes(code, JSON, write_object(value))
    }

    /// A plain text response.
    pub(crate) fn text(code: u16, text: impl Into<String>) -> Self {
        Self::bytes(code, TEXT, Bytes::from(text.into()))
    }

    pub(crate) fn bytes(code: u16, content_type: &str, bytes: Bytes) -> Self {
        Self {
            code,
            content_type: content_type.to_owned(),
            body: body::whole(bytes),
            warnings: Vec::new(),
            retry_after: None,
        }
    }

    /// Adds `Warning` headers.
    pub(crate) fn warn(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Converts to an HTTP response.
    pub(crate) fn into_response(self) -> Response<AnswerBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() =
            StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        if let Ok(value) = HeaderValue::from_str(&self.content_type) {
            headers.insert(CONTENT_TYPE, value);
        }
        for warning in fitting(&self.warnings) {
            let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
                headers.append(WARNING, value);
            }
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == 405 {
            headers.insert(ALLOW, HeaderValue::from_static(""));
        }
        response
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let mut answer = if refusal.plain {
            Self::text(refusal.code, refusal.message)
        } else {
            Self::json(refusal.code, &refusal.to_status())
        };
        answer.warnings = refusal.warnings;
        answer.retry_after = refusal.retry_after;
        answer
    }
}

/// The warnings that fit into headers: if they are too long together each is cut, and the rest is
/// omitted.
fn fitting(warnings: &[String]) -> Vec<String> {
    let length = |text: &String| text.chars().count();
    if warnings.iter().map(length).sum::<usize>() <= WARNINGS_MAX {
        return warnings.to_vec();
    }
    let cut = warnings.iter().map(|text| text.chars().take(WARNING_CUT).collect::<String>());
    let mut total = 0;
    cut.take_while(|text| {
        total += length(text);
        total <= WARNINGS_MAX
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_cut_when_they_are_too_long_together() {
        let long = "x".repeat(1000);
        assert_eq!(fitting(&vec![long.clone(); 4]), vec![long.clone(); 4]);
        assert_eq!(fitting(&vec![long.clone(); 5]), vec!["x".repeat(256); 5]);
        assert_eq!(fitting(&vec![long; 100]), vec!["x".repeat(256); 16]);
    }
}
