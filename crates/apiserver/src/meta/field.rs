//! Field errors and their messages.

use serde_json::Value;
use std::fmt;
use std::fmt::Write as _;

/// The path of a field, as printed in errors: `spec.ports[0].name`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(String);

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It is required and missing.
    Required,
    /// Its value is invalid.
    Invalid,
    /// Its value has the wrong JSON type.
    TypeInvalid,
    /// Its value is not one of the supported ones.
    NotSupported,
    /// It is forbidden, or immutable.
    Forbidden,
    /// Its value is a duplicate.
    Duplicate,
    /// Its string is too long.
    TooLong,
    /// It has too many items.
    TooMany,
}

/// An error of a field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub cause: Cause,
    /// The path of the field.
    pub field: String,
    /// The invalid value as printed in the message; `None` omits it.
    pub shown: Option<String>,
    /// The rest of the message; may be empty.
    pub detail: String,
}

/// Several errors as one message: each once, in brackets if there are several.
pub fn joined(errors: &[FieldError]) -> String {
    let mut sentences: Vec<String> = Vec::new();
    for error in errors {
        let sentence = error.to_string();
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    match sentences.as_slice() {
        [only] => only.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

/// A value as printed in messages: strings in quotes, the rest as JSON.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => value
            .to_string()
            .replace('&', "\\u0026")
            .replace('<', "\\u003c")
            .replace('>', "\\u003e"),
    }
}

/// A string in double quotes, with unprintable characters escaped.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if u32::from(other) < 0x20 || u32::from(other) == 0x7f => {
                let _ = write!(out, "\\x{:02x}", u32::from(other));
            }
            other if other.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

impl Path {
    /// The path of a field at the root.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The path of a field of this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() {
            return Self(name.to_owned());
        }
        Self(format!("{}.{name}", self.0))
    }

    /// The path of an item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The path of an entry of this map, in brackets.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Cause {
    /// The `reason` in the causes of a `Status`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    /// The first words of the message.
    pub fn word(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

impl FieldError {
    /// The field is required.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::made(Cause::Required, path, None, detail)
    }

    /// The value is invalid.
    pub fn invalid(path: &Path, value: &Value, detail: impl Into<String>) -> Self {
        Self::made(Cause::Invalid, path, Some(shown(value)), detail)
    }

    /// The string is invalid.
    pub fn invalid_text(path: &Path, value: &str, detail: impl Into<String>) -> Self {
        Self::made(Cause::Invalid, path, Some(quoted(value)), detail)
    }

    /// The value has the wrong type `found`.
    pub fn type_invalid(path: &Path, found: &str, detail: impl Into<String>) -> Self {
        Self::made(Cause::TypeInvalid, path, Some(quoted(found)), detail)
    }

    /// The value is not among `supported`.
    pub fn not_supported(path: &Path, value: &Value, supported: &[String]) -> Self {
        let list: Vec<String> = supported.iter().map(|text| quoted(text)).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::made(Cause::NotSupported, path, Some(shown(value)), detail)
    }

    /// The field is forbidden, or immutable.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::made(Cause::Forbidden, path, None, detail)
    }

    /// The value is a duplicate.
    pub fn duplicate(path: &Path, value: &Value) -> Self {
        Self::made(Cause::Duplicate, path, Some(shown(value)), "")
    }

    /// The string is longer than `most`.
    pub fn too_long(path: &Path, most: usize) -> Self {
        let detail = format!("may not be more than {most} bytes");
        Self::made(Cause::TooLong, path, None, detail)
    }

    /// There are `count` items, more than `most`.
    pub fn too_many(path: &Path, count: usize, most: u64) -> Self {
        let detail = format!("must have at most {most} items");
        Self::made(Cause::TooMany, path, Some(count.to_string()), detail)
    }

    /// An error with all its parts.
    pub fn made(
        cause: Cause,
        path: &Path,
        shown: Option<String>,
        detail: impl Into<String>,
    ) -> Self {
        let field = if path.0.is_empty() { "<nil>" } else { &path.0 };
        Self { cause, field: field.to_owned(), shown, detail: detail.into() }
    }

    /// The message without the field, as in the causes of a `Status`.
    pub fn sentence(&self) -> String {
        let mut out = self.cause.word().to_owned();
        for part in self.shown.as_deref().into_iter().chain([self.detail.as_str()]) {
            if !part.is_empty() {
                out.push_str(": ");
                out.push_str(part);
            }
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.field, self.sentence())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}
