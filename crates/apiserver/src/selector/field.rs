//! Field selectors: `metadata.name=a,spec.color!=red`.

use super::Malformed;
use std::fmt;

/// One condition on one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field.
    pub field: String,
    /// The value to compare with.
    pub value: String,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
}

/// Requirements on the fields of an object; empty matches every object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses a selector. Whether a kind supports its fields is not checked here.
    pub fn parse(selector: &str) -> Result<Self, Malformed> {
        let mut requirements = Vec::new();
        for term in terms(selector) {
            if term.is_empty() {
                continue;
            }
            let Some((field, sign, value)) = split(term) else {
                return Err(Malformed(format!(
                    "invalid selector: '{selector}'; can't understand '{term}'"
                )));
            };
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                value: unescape(value)?,
                equal: sign != "!=",
            });
        }
        Ok(Self { requirements })
    }

    /// The selector with other names of fields.
    #[must_use]
    pub fn renamed(mut self, name: impl Fn(&str) -> String) -> Self {
        for requirement in &mut self.requirements {
            requirement.field = name(&requirement.field);
        }
        self
    }

    /// The requirements, in order.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that a field must equal, if any.
    pub fn pinned(&self, field: &str) -> Option<&str> {
        let found = self.requirements.iter().find(|term| term.equal && term.field == field)?;
        Some(&found.value)
    }

    /// Whether every requirement holds; an absent field is empty.
    pub fn matches(&self, value_of: impl Fn(&str) -> String) -> bool {
        self.requirements.iter().all(|term| (value_of(&term.field) == term.value) == term.equal)
    }
}

fn terms(selector: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, character) in selector.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                found.push(selector.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(selector.get(start..).unwrap_or_default());
    found
}

fn split(term: &str) -> Option<(&str, &'static str, &str)> {
    for at in term.char_indices().map(|(at, _)| at) {
        let rest = term.get(at..)?;
        for sign in ["!=", "==", "="] {
            if let Some(value) = rest.strip_prefix(sign) {
                return Some((term.get(..at)?, sign, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, Malformed> {
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for character in value.chars() {
        match (escaped, character) {
            (true, '\\' | ',' | '=') => {
                out.push(character);
                escaped = false;
            }
            (true, other) => {
                return Err(Malformed(format!(
                    "invalid field selector: invalid escape sequence: \\{other}"
                )));
            }
            (false, '\\') => escaped = true,
            (false, ',' | '=') => {
                return Err(Malformed(format!(
                    "invalid field selector: unescaped character in value: {character}"
                )));
            }
            (false, other) => out.push(other),
        }
    }
    if escaped {
        return Err(Malformed("invalid field selector: invalid escape sequence: \\".to_owned()));
    }
    Ok(out)
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let sign = if term.equal { "=" } else { "!=" };
            write!(out, "{comma}{}{sign}", term.field)?;
            for character in term.value.chars() {
                if matches!(character, '\\' | ',' | '=') {
                    out.write_str("\\")?;
                }
                write!(out, "{character}")?;
            }
        }
        Ok(())
    }
}
