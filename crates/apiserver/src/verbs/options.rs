//! The query options of writes.

use serde_json::{Value, json};

use crate::http::Call;
use crate::meta::field::{FieldError, Path};
use crate::status::Refusal;

const WRITER_MAX: usize = 128;

/// How unknown fields are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped with a warning.
    Warn,
    /// They are refused.
    Strict,
}

/// The kind of write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    Patch,
    Apply,
}

/// The options of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// The field manager.
    pub(crate) manager: String,
    pub(crate) force: bool,
    /// The options as sent, for webhooks.
    pub(crate) given: Value,
}

impl WriteOptions {
    /// The options of a write by the server itself.
    pub(crate) fn internal(manager: &str) -> Self {
        Self {
            dry_run: false,
            validation: FieldValidation::Ignore,
            manager: manager.to_owned(),
            force: false,
            given: Value::Null,
        }
    }

    /// Parses and validates the options of a call.
    pub(crate) fn read(call: &Call, kind: WriteKind) -> Result<Self, Refusal> {
        let dry_run = call.query.all("dryRun");
        let manager = call.query.get("fieldManager");
        let validation = call.query.get("fieldValidation").unwrap_or_default();
        let mut errors = dry_run_errors(&dry_run);
        errors.extend(writer_errors(manager, kind));
        let parsed = match validation {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"].map(str::to_owned);
                let path = Path::new("fieldValidation");
                errors.push(FieldError::not_supported(&path, &json!(other), &supported));
                FieldValidation::Warn
            }
        };
        let force = call.query.get("force");
        if force.is_some() && kind == WriteKind::Patch {
            let why = "may not be specified for non-apply patch";
            errors.insert(0, FieldError::forbidden(&Path::new("force"), why));
        }
        if !errors.is_empty() {
            return Err(Refusal::invalid_kind("meta.k8s.io", kind.options(), "", &errors));
        }
        let mut given = json!({"kind": kind.options(), "apiVersion": "meta.k8s.io/v1"});
        for (key, value) in [("fieldManager", manager), ("fieldValidation", Some(validation))] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                given[key] = json!(value);
            }
        }
        if !dry_run.is_empty() {
            given["dryRun"] = json!(dry_run);
        }
        if let Some(force) = force {
            given["force"] = json!(force == "true");
        }
        Ok(Self {
            dry_run: !dry_run.is_empty(),
            validation: parsed,
            manager: manager.map_or_else(|| agent(&call.user_agent), str::to_owned),
            force: force == Some("true"),
            given,
        })
    }
}

impl WriteKind {
    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// Validates `dryRun`.
pub(crate) fn dry_run_errors(values: &[&str]) -> Vec<FieldError> {
    if values.iter().all(|value| *value == "All") {
        return Vec::new();
    }
    let supported = ["All".to_owned()];
    vec![FieldError::not_supported(&Path::new("dryRun"), &json!(values), &supported)]
}

fn writer_errors(manager: Option<&str>, kind: WriteKind) -> Vec<FieldError> {
    let path = Path::new("fieldManager");
    let Some(manager) = manager else {
        if kind == WriteKind::Apply {
            return vec![FieldError::required(&path, "is required for apply patch")];
        }
        return Vec::new();
    };
    let mut errors = Vec::new();
    if manager.len() > WRITER_MAX {
        errors.push(FieldError::too_long(&path, WRITER_MAX));
    }
    for (index, character) in manager.chars().enumerate() {
        if character.is_control() {
            let why =
                format!("invalid character U+{:04X} (at position {index})", u32::from(character));
            errors.push(FieldError::invalid_text(&path, manager, why));
        }
    }
    errors
}

/// The default field manager, from the `User-Agent`.
fn agent(header: &str) -> String {
    let name = header.split('/').next().unwrap_or_default();
    let mut end = name.len().min(WRITER_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let name = name.get(..end).unwrap_or_default();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}
