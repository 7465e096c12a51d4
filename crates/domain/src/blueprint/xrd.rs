//! The composite type a blueprint's XRD defines: enough to address an XR without the XRD.
//!
//! The value is pinned at acceptance, so that teardown works after the blueprint is gone.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use usher_kernel::coded;

use crate::object::label::{is_dns_label, is_dns_subdomain};
use crate::object::manifest::Scope;
use crate::object::offender::shortened;

const API_VERSION_1: &str = "apiextensions.crossplane.io/v1";
const API_VERSION_2: &str = "apiextensions.crossplane.io/v2";
const KIND: &str = "CompositeResourceDefinition";

/// How XRs of a blueprint are addressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct CompositeType {
    group: String,
    version: String,
    kind: String,
    plural: String,
    scope: Scope,
}

/// A part of an XRD that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `spec.group`.
    Group,
    /// `spec.names.kind`.
    Kind,
    /// `spec.names.plural`.
    Plural,
    /// `spec.versions[].name` of the first served version.
    Version,
    /// `metadata.name`.
    Name,
}

impl Part {
    /// Its path in the document.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Group => "spec.group",
            Self::Kind => "spec.names.kind",
            Self::Plural => "spec.names.plural",
            Self::Version => "spec.versions[].name",
            Self::Name => "metadata.name",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

coded! {
    /// Why a document is no XRD we can use.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadXrd {
        /// Another API version than v1 or v2, or none.
        #[error("invalid XRD: apiVersion \"{0}\" is not supported")]
        ApiVersion(String) = "xrd_api_version",
        /// Not an XRD at all.
        #[error("invalid XRD: kind \"{0}\" is not CompositeResourceDefinition")]
        NotAnXrd(String) = "xrd_kind",
        /// A part is missing.
        #[error("invalid XRD: \"{0}\" is missing")]
        Missing(Part) = "xrd_part_missing",
        /// A part is there and cannot be used.
        #[error("invalid XRD: \"{part}\" is \"{text}\"")]
        Syntax {
            /// Which.
            part: Part,
            /// What it says, shortened.
            text: String,
        } = "xrd_part_syntax",
        /// No version is served.
        #[error("invalid XRD: no version in \"spec.versions\" is served")]
        NoServedVersion = "xrd_no_served_version",
        /// The scope is none of the three.
        #[error("invalid XRD: scope \"{0}\" is unknown")]
        Scope(String) = "xrd_scope",
        /// The name is not `<plural>.<group>`.
        #[error("invalid XRD: its name is \"{name}\" and should be \"{expected}\"")]
        Name {
            /// What it is called, shortened.
            name: String,
            /// What it should be called, shortened.
            expected: String,
        } = "xrd_name",
    }
}

#[derive(Deserialize)]
struct Unchecked {
    group: String,
    version: String,
    kind: String,
    plural: String,
    scope: Scope,
}

impl CompositeType {
    /// Reads the composite type out of an XRD.
    pub fn from_xrd(xrd: &Value) -> Result<Self, BadXrd> {
        let text = |pointer: &str| xrd.pointer(pointer).and_then(Value::as_str);
        let part =
            |part, pointer| text(pointer).filter(|it| !it.is_empty()).ok_or(BadXrd::Missing(part));
        let api_version = text("/apiVersion").unwrap_or_default();
        let default_scope = match api_version {
            API_VERSION_1 => Scope::Cluster,
            API_VERSION_2 => Scope::Namespaced,
            other => return Err(BadXrd::ApiVersion(shortened(other))),
        };
        let kind = text("/kind").unwrap_or_default();
        if kind != KIND {
            return Err(BadXrd::NotAnXrd(shortened(kind)));
        }
        let it = Self::try_from(Unchecked {
            group: part(Part::Group, "/spec/group")?.to_owned(),
            kind: part(Part::Kind, "/spec/names/kind")?.to_owned(),
            plural: part(Part::Plural, "/spec/names/plural")?.to_owned(),
            version: first_served(xrd)?.to_owned(),
            scope: scope(xrd.pointer("/spec/scope"), default_scope)?,
        })?;
        let name = part(Part::Name, "/metadata/name")?;
        let expected = it.xrd_name();
        if name != expected {
            return Err(BadXrd::Name { name: shortened(name), expected: shortened(&expected) });
        }
        Ok(it)
    }

    /// Group and first served version.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Group and kind, as `group/Kind`: the kind of its objects in the identity ledger.
    pub fn group_kind(&self) -> String {
        format!("{}/{}", self.group(), self.kind())
    }

    pub fn group(&self) -> &str {
        &self.group
    }

    /// The first served version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The kind of an XR.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What several of them are called in paths.
    pub fn plural(&self) -> &str {
        &self.plural
    }

    /// The scope of the XRs.
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// The name of the XRD, and of the CRD made from it.
    pub fn xrd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl TryFrom<Unchecked> for CompositeType {
    type Error = BadXrd;

    fn try_from(it: Unchecked) -> Result<Self, BadXrd> {
        let good = |part, text: &str, sound: bool| {
            if sound { Ok(()) } else { Err(BadXrd::Syntax { part, text: shortened(text) }) }
        };
        good(Part::Group, &it.group, is_dns_subdomain(&it.group) && it.group.contains('.'))?;
        good(Part::Kind, &it.kind, is_kind(&it.kind))?;
        good(Part::Plural, &it.plural, is_dns_label(&it.plural))?;
        good(Part::Version, &it.version, is_dns_label(&it.version))?;
        let Unchecked { group, version, kind, plural, scope } = it;
        Ok(Self { group, version, kind, plural, scope })
    }
}

fn first_served(xrd: &Value) -> Result<&str, BadXrd> {
    let versions = xrd.pointer("/spec/versions").and_then(Value::as_array);
    let served = versions
        .into_iter()
        .flatten()
        .find(|it| it.get("served").and_then(Value::as_bool) == Some(true))
        .ok_or(BadXrd::NoServedVersion)?;
    served
        .get("name")
        .and_then(Value::as_str)
        .filter(|it| !it.is_empty())
        .ok_or(BadXrd::Missing(Part::Version))
}

fn scope(stated: Option<&Value>, default: Scope) -> Result<Scope, BadXrd> {
    let Some(stated) = stated else { return Ok(default) };
    match stated.as_str() {
        Some("Namespaced") => Ok(Scope::Namespaced),
        // A legacy cluster XR differs in its claim machinery, not in its scope.
        Some("Cluster" | "LegacyCluster") => Ok(Scope::Cluster),
        Some(other) => Err(BadXrd::Scope(shortened(other))),
        None => Err(BadXrd::Scope(shortened(&stated.to_string()))),
    }
}

fn is_kind(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn xrd() -> Value {
        json!({
            "apiVersion": "apiextensions.crossplane.io/v2",
            "kind": "CompositeResourceDefinition",
            "metadata": { "name": "servers.blueprints.usher.dev" },
            "spec": {
                "group": "blueprints.usher.dev",
                "names": { "kind": "Server", "plural": "servers" },
                "versions": [
                    { "name": "v1alpha1", "served": false },
                    { "name": "v1beta1", "served": true },
                    { "name": "v1", "served": true },
                ],
            },
        })
    }

    fn with(path: &str, value: Value) -> Result<CompositeType, BadXrd> {
        let mut xrd = xrd();
        *xrd.pointer_mut(path).unwrap() = value;
        CompositeType::from_xrd(&xrd)
    }

    fn scoped(api_version: &str, scope: Option<Value>) -> Result<Scope, BadXrd> {
        let mut xrd = xrd();
        xrd["apiVersion"] = json!(format!("apiextensions.crossplane.io/{api_version}"));
        if let Some(scope) = scope {
            xrd["spec"]["scope"] = scope;
        }
        CompositeType::from_xrd(&xrd).map(|it| it.scope())
    }

    // Requirement: X-6
    #[test]
    fn the_first_served_version_is_taken() {
        let it = CompositeType::from_xrd(&xrd()).unwrap();
        assert_eq!(it.api_version(), "blueprints.usher.dev/v1beta1");
        assert_eq!((it.group(), it.version()), ("blueprints.usher.dev", "v1beta1"));
        assert_eq!((it.kind(), it.plural()), ("Server", "servers"));
        assert_eq!(it.xrd_name(), "servers.blueprints.usher.dev");
    }

    // Requirement: X-6
    #[test]
    fn the_scope_is_stated_or_follows_the_api_version() {
        assert_eq!(scoped("v2", None), Ok(Scope::Namespaced));
        assert_eq!(scoped("v1", None), Ok(Scope::Cluster));
        for version in ["v1", "v2"] {
            assert_eq!(scoped(version, Some(json!("Namespaced"))), Ok(Scope::Namespaced));
            assert_eq!(scoped(version, Some(json!("Cluster"))), Ok(Scope::Cluster));
            assert_eq!(scoped(version, Some(json!("LegacyCluster"))), Ok(Scope::Cluster));
        }
        let word = scoped("v2", Some(json!("cluster"))).unwrap_err();
        assert_eq!(word, BadXrd::Scope("cluster".into()));
        assert_eq!(word.code(), "xrd_scope");
        assert_eq!(scoped("v2", Some(json!(7))), Err(BadXrd::Scope("7".into())));
    }

    // Requirement: X-7
    #[test]
    fn a_missing_part_is_named() {
        let cases = [
            ("/spec/group", Part::Group, "spec.group"),
            ("/spec/names/kind", Part::Kind, "spec.names.kind"),
            ("/spec/names/plural", Part::Plural, "spec.names.plural"),
            ("/spec/versions/1/name", Part::Version, "spec.versions[].name"),
            ("/metadata/name", Part::Name, "metadata.name"),
        ];
        for (pointer, part, path) in cases {
            for nothing in [Value::Null, json!(""), json!(7)] {
                let refusal = with(pointer, nothing).unwrap_err();
                assert_eq!(refusal, BadXrd::Missing(part));
                assert_eq!(refusal.code(), "xrd_part_missing");
                let message = format!("invalid XRD: \"{path}\" is missing");
                assert_eq!(refusal.to_string(), message);
            }
        }
    }

    // Requirement: X-7
    #[test]
    fn a_part_that_cannot_be_used_is_named() {
        let cases = [
            ("/spec/group", "nodot", Part::Group),
            ("/spec/group", "Upper.dev", Part::Group),
            ("/spec/names/kind", "server", Part::Kind),
            ("/spec/names/kind", "Ser-ver", Part::Kind),
            ("/spec/names/plural", "Servers", Part::Plural),
            ("/spec/versions/1/name", "v1/2", Part::Version),
        ];
        for (pointer, text, part) in cases {
            let refusal = with(pointer, json!(text)).unwrap_err();
            assert_eq!(refusal, BadXrd::Syntax { part, text: text.into() });
            assert_eq!(refusal.code(), "xrd_part_syntax");
        }
        assert!(is_kind(&format!("K{}", "k".repeat(62))));
        assert!(!is_kind(&format!("K{}", "k".repeat(63))));
    }

    // Requirement: X-7
    #[test]
    fn an_xrd_that_serves_nothing_is_refused() {
        let unserved = json!([{ "name": "v1", "served": false }, { "name": "v2" }, 7]);
        for versions in [unserved, json!([]), Value::Null] {
            let refusal = with("/spec/versions", versions).unwrap_err();
            assert_eq!(refusal, BadXrd::NoServedVersion);
            assert_eq!(refusal.code(), "xrd_no_served_version");
        }
    }

    // Requirement: X-7
    #[test]
    fn other_documents_are_refused() {
        let version = with("/apiVersion", json!("apiextensions.crossplane.io/v3")).unwrap_err();
        assert_eq!(version.code(), "xrd_api_version");
        let kind = with("/kind", json!("Composition")).unwrap_err();
        assert_eq!(kind, BadXrd::NotAnXrd("Composition".into()));
        assert_eq!(kind.code(), "xrd_kind");
        let name = with("/metadata/name", json!("other.blueprints.usher.dev")).unwrap_err();
        assert_eq!(name.code(), "xrd_name");
        assert_eq!(
            name.to_string(),
            "invalid XRD: its name is \"other.blueprints.usher.dev\" \
             and should be \"servers.blueprints.usher.dev\""
        );
    }

    // Requirement: X-8
    #[test]
    fn a_pinned_type_is_checked_again_when_read() {
        let it = CompositeType::from_xrd(&xrd()).unwrap();
        let text = serde_json::to_string(&it).unwrap();
        assert_eq!(serde_json::from_str::<CompositeType>(&text).unwrap(), it);
        let broken = text.replace("\"Server\"", "\"server\"");
        assert!(serde_json::from_str::<CompositeType>(&broken).is_err());
    }

    proptest! {
        // Requirement: X-7
        #[test]
        fn garbage_is_refused(
            at in prop::sample::select(vec![
                "/apiVersion", "/kind", "/metadata", "/spec", "/spec/group", "/spec/names",
                "/spec/versions",
            ]),
            text in any::<String>(),
        ) {
            if let Ok(it) = with(at, json!(text)) {
                prop_assert_eq!(it, CompositeType::from_xrd(&xrd()).unwrap());
            }
            prop_assert!(CompositeType::from_xrd(&json!(text)).is_err());
        }
    }
}
