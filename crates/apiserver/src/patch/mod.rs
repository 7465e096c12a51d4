//! Patches on JSON documents, with the semantics of Kubernetes.
//!
//! [`json`] is a list of operations, [`merge`] a partial document, [`strategic`] the same with
//! merge
//! keys of the lists in `metadata`. None needs a schema, and a patch that does not apply changes
//! nothing.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

/// Why a patch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The body is not a valid patch: a bad request.
    #[error("error decoding patch: {0}")]
    Undecodable(String),
    /// There are too many operations: the request is too large.
    #[error("The allowed maximum operations in a JSON patch is {most}, got {got}")]
    TooMany {
        /// The limit.
        most: usize,
        /// The number of operations.
        got: usize,
    },
    /// The patch does not apply to the document: unprocessable.
    #[error("{0}")]
    DoesNotApply(String),
    /// The patch contradicts itself: an internal error, as in Kubernetes.
    #[error("{0}")]
    Contradictory(String),
}

/// Parses JSON; errors have the messages of Go.
pub fn read(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| syntax_error(body, &error))
}

/// The name of a JSON type in Go's messages.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn syntax_error(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let offender = body
        .split(|byte| *byte == b'\n')
        .nth(error.line().saturating_sub(1))
        .and_then(|line| line.get(error.column().saturating_sub(1)))
        .copied()
        .map_or(' ', char::from);
    format!("invalid character '{}' in JSON text", offender.escape_default())
}

#[cfg(test)]
mod tests;
