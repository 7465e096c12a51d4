//! Patches on JSON documents, with the semantics of Kubernetes.
//!
//! [`json`] is a list of operations, [`merge`] a document that is laid over another, [`strategic`]
//! the same with knowledge of the lists in `metadata`. None of them knows a schema, and none can
//! fail half done: a patch that does not apply leaves nothing behind.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

/// Why a patch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The body is not such a patch: a bad request.
    #[error("error decoding patch: {0}")]
    Undecodable(String),
    /// There are more operations than allowed: the request is too large.
    #[error("The allowed maximum operations in a JSON patch is {most}, got {got}")]
    TooMany {
        /// How many there may be.
        most: usize,
        /// How many there were.
        got: usize,
    },
    /// The patch does not fit the document: unprocessable.
    #[error("{0}")]
    DoesNotApply(String),
}

/// Reads a body as JSON, telling what is wrong with it as the original does.
pub fn read(body: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(body).map_err(|error| syntax_error(body, &error))
}

/// The name of a JSON type in messages about types that do not fit.
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
