//! A request with placeholders for what each server chooses itself.

use serde_json::{Value, json};

/// The media types of bodies.
pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    /// The impersonated user; empty is the administrator.
    pub(crate) user: &'static str,
    pub(crate) method: &'static str,
    /// The plural of the resource.
    pub(crate) plural: &'static str,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) media: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: Value,
}

impl Request {
    pub(crate) fn new(method: &'static str, plural: &'static str, path: String) -> Self {
        Self {
            user: "",
            method,
            plural,
            path,
            query: Vec::new(),
            media: JSON,
            accept: JSON,
            body: Value::Null,
        }
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = body;
        self
    }

    pub(crate) fn media(mut self, media: &'static str) -> Self {
        self.media = media;
        self
    }

    /// For a subresource.
    pub(crate) fn below(mut self, subresource: &str) -> Self {
        self.path.push_str(subresource);
        self
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.query.push((key, value.into()));
        self
    }

    /// The path with the query.
    pub(crate) fn target(&self) -> String {
        let query: Vec<String> =
            self.query.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect();
        if query.is_empty() {
            self.path.clone()
        } else {
            format!("{}?{}", self.path, query.join("&"))
        }
    }

    /// Whether it may change something.
    pub(crate) fn writes(&self) -> bool {
        self.method != "GET"
    }

    /// Whether a controller may act on it.
    pub(crate) fn concerns_collector(&self) -> bool {
        let text = self.body.to_string();
        let words = ["ownerReferences", "Foreground", "Orphan", "orphan", "foregroundDeletion"];
        words.iter().any(|word| text.contains(word))
            || self.query.iter().any(|(key, _)| *key == "propagationPolicy")
    }

    /// One line of JSON.
    pub(crate) fn line(&self) -> String {
        let mut line = json!({"method": self.method, "target": self.target()});
        for (key, value) in [("user", self.user), ("media", self.media), ("accept", self.accept)] {
            if !value.is_empty() && value != JSON {
                line[key] = json!(value);
            }
        }
        if !self.body.is_null() {
            line["body"] = self.body.clone();
        }
        line.to_string()
    }
}

/// Percent-encodes what may not stand in a query; placeholders stay.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~${}:/,=".contains(&byte);
    let encoded = text.bytes().map(|byte| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    encoded.collect()
}
