//! Errors as Kubernetes `Status` objects.

use serde_json::{Map, Value, json};

use crate::clock::NoRandomness;
use crate::kinds::{Builtin, Resource};
use crate::meta::field::{FieldError, joined, quoted};

/// An API error: code, reason and message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    /// The HTTP status.
    pub(crate) code: u16,
    /// The `StatusReason`; may be empty.
    pub(crate) reason: &'static str,
    /// The message.
    pub(crate) message: String,
    /// The `details` of the `Status`.
    pub(crate) details: Option<Box<Value>>,
    /// `Retry-After` in seconds.
    pub(crate) retry_after: Option<u64>,
    /// A complete `Status` of a webhook, in place of the fields above.
    pub(crate) status: Option<Box<Value>>,
    /// `Warning` headers.
    pub(crate) warnings: Vec<String>,
    /// Whether the body is plain text instead of a `Status`.
    pub(crate) plain: bool,
}

impl Refusal {
    /// An error without details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            status: None,
            warnings: Vec::new(),
            plain: false,
        }
    }

    /// Adds details.
    pub(crate) fn about(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An internal error without a reason.
    pub(crate) fn bare(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let details = json!({"causes": [{"message": message}]});
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
            .about(details)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn not_acceptable() -> Self {
        let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let message = format!("only the following media types are accepted: {types}");
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn unsupported_media(types: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {types}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn no_such_page() -> Self {
        let mut refusal = Self::new(404, "NotFound", "404 page not found\n");
        refusal.plain = true;
        refusal
    }

    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .about(json!({}))
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).about(json!({}))
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {} not found", resource.qualified(), quoted(name));
        Self::new(404, "NotFound", message).about(resource.details(name))
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str, terminating: bool) -> Self {
        let prefix = if terminating { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} {} already exists", resource.qualified(), quoted(name));
        Self::new(409, "AlreadyExists", message).about(resource.details(name))
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            resource.qualified(),
            quoted(name)
        );
        Self::new(409, "Conflict", message).about(resource.details(name))
    }

    /// The object changed since the caller read it.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let named = if name.is_empty() { String::new() } else { format!(" {}", quoted(name)) };
        let message = format!("{}{named} is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource.details(name))
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The object has invalid fields.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        let group = if resource.is_builtin(Builtin::RegardingEvent) { "" } else { &resource.group };
        Self::invalid_kind(group, &resource.kind, name, errors)
    }

    /// As [`Refusal::invalid`], for a kind that is not a resource.
    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let dotted = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{dotted} {} is invalid: {}", quoted(name), joined(errors));
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| {
                json!({
                    "reason": error.cause.reason(),
                    "message": error.sentence(),
                    "field": error.field,
                })
            })
            .collect();
        let mut details = details(group, kind, name);
        if let Some(map) = details.as_object_mut() {
            map.insert("causes".to_owned(), Value::Array(causes));
        }
        Self::new(422, "Invalid", message).about(details)
    }

    /// Converts to a `Status` object.
    pub(crate) fn to_status(&self) -> Value {
        if let Some(status) = &self.status {
            return status.as_ref().clone();
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        let mut details = self.details.as_deref().cloned();
        if let Some(seconds) = self.retry_after {
            details.get_or_insert_with(|| json!({}))["retryAfterSeconds"] = json!(seconds);
        }
        if let Some(details) = details {
            status["details"] = details;
        }
        status
    }
}

impl From<NoRandomness> for Refusal {
    fn from(why: NoRandomness) -> Self {
        Self::internal(why.to_string())
    }
}

/// The `details` of a `Status`; empty fields are omitted.
pub(crate) fn details(group: &str, kind: &str, name: &str) -> Value {
    let mut map = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            map.insert(key.to_owned(), json!(value));
        }
    }
    Value::Object(map)
}
