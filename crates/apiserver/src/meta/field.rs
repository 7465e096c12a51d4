//! Errors of fields: which field, what is wrong, and the two sentences that are made of it.

use serde_json::Value;
use std::fmt;
use std::fmt::Write as _;

/// Where a field is, as errors write it: `spec.ports[0].name`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path(String);

/// The closed list of what can be wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// It must be there and is not.
    Required,
    /// Its value is not allowed.
    Invalid,
    /// Its value has the wrong JSON type.
    TypeInvalid,
    /// Its value is not one of the few that are allowed.
    NotSupported,
    /// It may not be there, or may not be changed.
    Forbidden,
    /// Its value is there twice.
    Duplicate,
    /// Its text is too long.
    TooLong,
    /// It has too many items.
    TooMany,
}

/// One thing that is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// What is wrong.
    pub cause: Cause,
    /// Which field, as text.
    pub field: String,
    /// The offending value, already written as the message shows it; `None` leaves it out.
    pub shown: Option<String>,
    /// The rest of the sentence; may be empty.
    pub detail: String,
}

/// Several errors as one message: each sentence once, in brackets when there are several.
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

/// Writes a value as Kubernetes shows it in a message: text in quotes, the rest as JSON.
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

/// Writes a text in double quotes, with everything that cannot be printed escaped.
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

    /// The path of an entry of this map, where entries are written in brackets.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The path as text; the root has none.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Cause {
    /// The name of the cause in the `causes` of an answer.
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

    /// The word that starts the sentence.
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
    /// The field must be there.
    pub fn required(path: &Path, detail: impl Into<String>) -> Self {
        Self::made(Cause::Required, path, None, detail)
    }

    /// The field's value is not allowed.
    pub fn invalid(path: &Path, value: &Value, detail: impl Into<String>) -> Self {
        Self::made(Cause::Invalid, path, Some(shown(value)), detail)
    }

    /// The field's text is not allowed.
    pub fn invalid_text(path: &Path, value: &str, detail: impl Into<String>) -> Self {
        Self::made(Cause::Invalid, path, Some(quoted(value)), detail)
    }

    /// The field's value has the wrong type; `found` is the name of that type.
    pub fn type_invalid(path: &Path, found: &str, detail: impl Into<String>) -> Self {
        Self::made(Cause::TypeInvalid, path, Some(quoted(found)), detail)
    }

    /// The field's value is not among `supported`.
    pub fn not_supported(path: &Path, value: &Value, supported: &[String]) -> Self {
        let list: Vec<String> = supported.iter().map(|text| quoted(text)).collect();
        let detail = format!("supported values: {}", list.join(", "));
        Self::made(Cause::NotSupported, path, Some(shown(value)), detail)
    }

    /// The field may not be there, or may not be changed so.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Self {
        Self::made(Cause::Forbidden, path, None, detail)
    }

    /// The value is there already.
    pub fn duplicate(path: &Path, value: &Value) -> Self {
        Self::made(Cause::Duplicate, path, Some(shown(value)), "")
    }

    /// The text is longer than `most`.
    pub fn too_long(path: &Path, most: usize) -> Self {
        let detail = format!("may not be more than {most} bytes");
        Self::made(Cause::TooLong, path, None, detail)
    }

    /// There are `count` items, and only `most` may be.
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

    /// The sentence without the field: the message of a cause.
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
