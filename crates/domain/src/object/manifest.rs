//! Manifests as data: what should exist in a world, with one spelling in bytes.
//!
//! **Invariants**
//! - A manifest always has an apiVersion, a kind and a name.
//! - Equal manifests have equal bytes.
//! - A manifest may carry a secret, so `Debug` shows its identity only and there is no `Display`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use thiserror::Error;
use usher_kernel::Uid;

/// The scope of the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// In a namespace.
    Namespaced,
    /// Cluster-scoped.
    Cluster,
}

/// A text that must not reach a log, an error, an event or an answer.
///
/// It has no `Display` and no `Serialize`; reading it takes the word [`SecretText::expose`].
#[derive(Clone)]
pub struct SecretText(String);

impl SecretText {
    /// Keeps a text secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that must write it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(redacted)")
    }
}

/// What an object must say of itself to be a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadManifest {
    /// No apiVersion.
    #[error("cannot read manifest: \"apiVersion\" is missing")]
    ApiVersionMissing,
    /// No kind.
    #[error("cannot read manifest: \"kind\" is missing")]
    KindMissing,
    /// No name.
    #[error("cannot read manifest: \"metadata.name\" is missing")]
    NameMissing,
}

/// The object another one belongs to: once it is gone, the other is garbage collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    pub kind: String,
    pub name: String,
    /// The uid of the incarnation that owns.
    pub uid: Uid,
}

/// One object as it should be.
#[derive(Clone, PartialEq)]
pub struct Manifest(Value);

impl Manifest {
    /// An object that has an identity and nothing else.
    pub fn new(api_version: &str, kind: &str, name: &str) -> Self {
        Self(json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": name } }))
    }

    /// Takes an object that another client wrote.
    pub fn from_value(value: Value) -> Result<Self, BadManifest> {
        let named = |pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).is_some_and(|it| !it.is_empty())
        };
        if !named("/apiVersion") {
            return Err(BadManifest::ApiVersionMissing);
        }
        if !named("/kind") {
            return Err(BadManifest::KindMissing);
        }
        if !named("/metadata/name") {
            return Err(BadManifest::NameMissing);
        }
        Ok(Self(value))
    }

    /// Group and version.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion").unwrap_or_default()
    }

    pub fn kind(&self) -> &str {
        self.text("/kind").unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    /// The namespace, if it is namespaced.
    pub fn namespace(&self) -> Option<&str> {
        self.text("/metadata/namespace")
    }

    /// The uid of the incarnation it is meant for.
    pub fn uid(&self) -> Option<&str> {
        self.text("/metadata/uid")
    }

    /// The whole object; it may carry a secret.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Puts the object into a namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        self.with("metadata", "namespace", namespace.into())
    }

    /// Adds a label.
    #[must_use]
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        put(&mut self.0, &["metadata", "labels"], key, value.into());
        self
    }

    /// Makes the object belong to another one.
    #[must_use]
    pub fn owned_by(self, owner: &Owner) -> Self {
        let reference = json!([{
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid.0,
        }]);
        self.with("metadata", "ownerReferences", reference)
    }

    /// Means one incarnation: applied onto any other, the server refuses.
    #[must_use]
    pub fn for_uid(self, uid: &Uid) -> Self {
        self.with("metadata", "uid", uid.0.as_str().into())
    }

    /// Writes `<section>.<field>`.
    #[must_use]
    pub fn with(mut self, section: &str, field: &str, value: Value) -> Self {
        put(&mut self.0, &[section], field, value);
        self
    }

    /// Writes `spec.<section>.<field>` beside the existing fields.
    #[must_use]
    pub fn with_spec(mut self, section: &str, field: &str, value: Value) -> Self {
        put(&mut self.0, &["spec", section], field, value);
        self
    }

    /// Writes a field beside apiVersion and kind.
    #[must_use]
    pub fn with_top(mut self, field: &str, value: Value) -> Self {
        put(&mut self.0, &[], field, value);
        self
    }

    /// The object in compact JSON with sorted keys: equal objects, equal bytes.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        sorted(&self.0).to_string().into_bytes()
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer).and_then(Value::as_str)
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.namespace().map(|it| format!("{it}/")).unwrap_or_default();
        write!(f, "Manifest({} {} {place}{})", self.api_version(), self.kind(), self.name())
    }
}

/// Changes an object in place; what is no object becomes one.
fn amend(value: &mut Value, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut map = if let Value::Object(map) = value.take() { map } else { Map::new() };
    change(&mut map);
    *value = Value::Object(map);
}

fn put(value: &mut Value, path: &[&str], field: &str, content: Value) {
    amend(value, |map| match path {
        [] => {
            map.insert(field.to_owned(), content);
        }
        [section, rest @ ..] => {
            put(map.entry(*section).or_insert(Value::Null), rest, field, content);
        }
    });
}

/// Sorts explicitly: another crate of the build may switch the map to insertion order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields: BTreeMap<&String, &Value> = map.iter().collect();
            fields.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            ".{0,4}".prop_map(Value::from),
        ];
        let key = prop::sample::select(vec!["apiVersion", "kind", "metadata", "name", "spec"]);
        leaf.prop_recursive(3, 16, 5, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..5)
                    .prop_map(|it| it.into_iter().collect()),
            ]
        })
    }

    fn owner() -> Owner {
        Owner {
            api_version: "broker.usher.dev/v1alpha1".into(),
            kind: "Anchor".into(),
            name: "a".into(),
            uid: Uid::new("u-1"),
        }
    }

    #[test]
    fn a_manifest_has_kind_name_and_namespace() {
        let manifest = Manifest::new("g/v1", "Thing", "one")
            .in_namespace("here")
            .labelled("b", "2")
            .labelled("a", "1")
            .owned_by(&owner())
            .for_uid(&Uid::new("u-2"))
            .with_spec("parameters", "x", json!(1))
            .with_spec("parameters", "y", json!(2))
            .with_top("type", json!("Opaque"));
        assert_eq!(manifest.api_version(), "g/v1");
        assert_eq!(manifest.kind(), "Thing");
        assert_eq!(manifest.name(), "one");
        assert_eq!(manifest.namespace(), Some("here"));
        assert_eq!(manifest.uid(), Some("u-2"));
        let bytes = concat!(
            r#"{"apiVersion":"g/v1","kind":"Thing","metadata":{"labels":{"a":"1","b":"2"},"#,
            r#""name":"one","namespace":"here","ownerReferences":[{"#,
            r#""apiVersion":"broker.usher.dev/v1alpha1","kind":"Anchor","name":"a","uid":"u-1"}],"#,
            r#""uid":"u-2"},"spec":{"parameters":{"x":1,"y":2}},"type":"Opaque"}"#,
        );
        assert_eq!(String::from_utf8(manifest.canonical_bytes()).unwrap(), bytes);
        assert_eq!(Manifest::from_value(manifest.as_value().clone()), Ok(manifest));
    }

    #[test]
    fn a_section_that_is_no_object_becomes_one() {
        let odd = json!({ "apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": 7 });
        let manifest = Manifest::from_value(odd).unwrap().with_spec("a", "b", json!(true));
        assert_eq!(manifest.as_value()["spec"], json!({ "a": { "b": true } }));
    }

    #[test]
    fn an_object_without_identity_is_no_manifest() {
        let whole = json!({ "apiVersion": "v1", "kind": "K", "metadata": { "name": "n" } });
        let without = |field: &str| {
            let mut value = whole.clone();
            value[field] = Value::Null;
            Manifest::from_value(value).unwrap_err()
        };
        assert_eq!(without("apiVersion"), BadManifest::ApiVersionMissing);
        assert_eq!(without("kind"), BadManifest::KindMissing);
        assert_eq!(without("metadata"), BadManifest::NameMissing);
        let empty = json!({ "apiVersion": "v1", "kind": "", "metadata": { "name": "n" } });
        assert_eq!(Manifest::from_value(empty), Err(BadManifest::KindMissing));
        assert_eq!(Manifest::from_value(Value::Null), Err(BadManifest::ApiVersionMissing));
    }

    // Requirement: R-13
    #[test]
    fn debug_shows_identity_and_no_content() {
        let manifest = Manifest::new("v1", "Secret", "s").with("stringData", "t", json!("canary"));
        assert_eq!(format!("{manifest:?}"), "Manifest(v1 Secret s)");
        let placed = manifest.in_namespace("ns");
        assert_eq!(format!("{placed:?}"), "Manifest(v1 Secret ns/s)");
    }

    // Requirement: R-13
    #[test]
    fn a_secret_is_shown_only_on_request() {
        let secret = SecretText::new("canary");
        assert_eq!(format!("{secret:?}"), "SecretText(redacted)");
        assert_eq!(secret.expose(), "canary");
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_has_an_identity(value in any_json()) {
            if let Ok(manifest) = Manifest::from_value(value.clone()) {
                prop_assert_eq!(manifest.as_value(), &value);
                for part in [manifest.api_version(), manifest.kind(), manifest.name()] {
                    prop_assert!(!part.is_empty());
                }
                let bytes = manifest.canonical_bytes();
                prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), value);
            }
        }
    }
}
