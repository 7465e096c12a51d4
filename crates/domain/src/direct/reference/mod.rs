//! What a spec refers to, and every way in which a reference may fail to resolve.
//!
//! **Invariants**
//! - A reference is `external` alone, or `name` with perhaps a `namespace`; every other shape is
//!   refused.
//! - There is one closed set of failures, [`Unresolved`], and no untyped one beside it.
//! - Configuration references are resolved with [`Converging`] only, and an object being deleted
//!   does not give one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use usher_kernel::{Uid, coded};

use super::identity::IdentityText;
use super::ports::Reader;
use super::snapshot::Object;
use crate::object::closed::closed_set;
use crate::object::label::{is_dns_label, is_dns_subdomain};
use crate::object::offender::shortened;

/// A reference of a spec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reference {
    /// The identity itself: nothing has to be read for it.
    External(IdentityText),
    /// A Kubernetes object that knows it.
    Named(Named),
}

/// The name of a Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Named {
    pub namespace: String,
    pub name: String,
}

coded! {
    /// Why a value is not a reference.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadReference {
        /// It is not a map of texts with the members `external`, `name` and `namespace`.
        #[error("reference \"{0}\" is not of the strings external, or name and namespace")]
        Shape(String) = "reference_shape",
        /// Neither `external` nor `name` is there.
        #[error("reference has neither \"external\" nor \"name\"")]
        Empty = "reference_empty",
        /// Both are there.
        #[error("reference \"{0}\" has \"external\" beside \"name\" or \"namespace\"")]
        Ambiguous(String) = "reference_ambiguous",
        /// The external text is not an identity.
        #[error("external reference \"{0}\" is not an identity (segments joined by '/')")]
        External(String) = "reference_external",
        /// The name is not a DNS subdomain, or the namespace not a DNS label.
        #[error("reference name \"{0}\" is not a DNS subdomain, or as namespace not a DNS label")]
        Name(String) = "reference_name",
    }
}

impl Reference {
    /// Reads a reference; a name without a namespace lies in the one of the referrer.
    pub fn parse(value: &Value, namespace: &str) -> Result<Self, BadReference> {
        let shape = |what: &str| BadReference::Shape(shortened(what));
        let Value::Object(members) = value else {
            return Err(shape(&value.to_string()));
        };
        let known = ["external", "name", "namespace"];
        if let Some(stranger) = members.keys().find(|it| !known.contains(&it.as_str())) {
            return Err(shape(stranger));
        }
        let text = |member: &str| match members.get(member) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(shape(member)),
        };
        match (text("external")?, text("name")?, text("namespace")?) {
            (None, None, _) => Err(BadReference::Empty),
            (Some(external), None, None) => external
                .parse()
                .map(Self::External)
                .map_err(|_| BadReference::External(shortened(external))),
            (Some(external), _, _) => Err(BadReference::Ambiguous(shortened(external))),
            (None, Some(name), given) => {
                let namespace = given.unwrap_or(namespace);
                let bad = |text| Err(BadReference::Name(shortened(text)));
                if !is_dns_subdomain(name) {
                    return bad(name);
                }
                if !is_dns_label(namespace) {
                    return bad(namespace);
                }
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                Ok(Self::Named(Named { namespace, name }))
            }
        }
    }

    /// How a record spells it.
    pub fn to_text(&self) -> String {
        match self {
            Self::External(text) => text.as_str().to_owned(),
            Self::Named(it) => format!("{}/{}", it.namespace, it.name),
        }
    }
}

closed_set! {
    /// Why a reference does not resolve, the least conclusive last.
    "unresolved reference" Unresolved {
        /// It can never resolve: what it leads to is no identity.
        Invalid = "Invalid",
        /// A live read says that the object is not there.
        NotFound = "NotFound",
        /// The object is being deleted.
        Terminating = "Terminating",
        /// The object has no identity yet.
        NotReady = "NotReady",
        /// Its kind is not installed, so whether it is there is unknown.
        KindNotInstalled = "KindNotInstalled",
        /// We may not read it.
        Forbidden = "Forbidden",
        /// No answer.
        Unavailable = "Unavailable",
    }
}

/// The answer of a live read of a referent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The object.
    Found(Referent),
    /// It is not there.
    Absent,
    /// Its kind is not there.
    KindNotInstalled,
    /// We may not read it.
    Forbidden,
    /// No answer.
    Unavailable,
}

impl Read {
    const fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Found(it) => Some(&it.uid),
            Self::Absent | Self::KindNotInstalled | Self::Forbidden | Self::Unavailable => None,
        }
    }
}

/// The object that a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referent {
    pub uid: Uid,
    /// The identity that its status shows.
    pub external: Option<String>,
    /// Whether it is being deleted.
    pub terminating: bool,
}

/// Whether a reference is part of the identity, or only of how the object shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bearing {
    /// Part of the identity.
    Identity,
    /// Part of the configuration: never resolved for a deletion.
    Configuration,
}

/// The kind of object that a reference may name, and the path of its identity in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The kind, as `group/Kind`.
    pub kind: &'static str,
    /// What requests call the kind.
    pub plural: &'static str,
    /// The members that lead to the identity, as `status.externalRef`.
    pub path: &'static str,
}

/// A reference as the model of a kind declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The field of the spec.
    pub field: &'static str,
    /// What it is for.
    pub bearing: Bearing,
    /// What it may name.
    pub target: Target,
    pub reference: Reference,
}

impl Declared {
    fn resolution(&self, uid: Option<Uid>, external: IdentityText) -> Resolution {
        let (field, reference) = (self.field.to_owned(), self.reference.clone());
        Resolution { field, reference, uid, external }
    }
}

/// A reference that resolved once, as the record keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// The field of the spec.
    pub field: String,
    /// The reference, as it was then.
    pub reference: Reference,
    /// The uid of the referent, where there was one.
    pub uid: Option<Uid>,
    /// What it resolved to.
    pub external: IdentityText,
}

/// The references of one object, all of them resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved(BTreeMap<&'static str, Resolution>);

impl Resolved {
    /// What a field resolved to.
    pub fn get(&self, field: &str) -> Option<&IdentityText> {
        self.0.get(field).map(|it| &it.external)
    }

    /// All of them, as the record keeps them.
    pub fn resolutions(&self) -> Vec<Resolution> {
        self.0.values().cloned().collect()
    }
}

/// Permission to resolve configuration references, given by an object that is not being deleted.
#[derive(Debug)]
pub struct Converging(());

impl Converging {
    /// The permission of this object, unless it is being deleted.
    pub fn of(object: &Object) -> Option<Self> {
        (!object.deleting).then_some(Self(()))
    }
}

/// Resolves every reference of an object that is not being deleted.
pub async fn resolve_all(
    reader: &impl Reader,
    declared: &[Declared],
    _: &Converging,
) -> Result<Resolved, Unresolved> {
    resolve(reader, declared.iter(), Mode { may_terminate: false, remembered: &[] }).await
}

/// Resolves only what the identity consists of. A referent being deleted still lends its identity,
/// and what resolved before is remembered.
pub async fn resolve_identity(
    reader: &impl Reader,
    declared: &[Declared],
    remembered: &[Resolution],
) -> Result<Resolved, Unresolved> {
    let bearing = declared.iter().filter(|it| it.bearing == Bearing::Identity);
    resolve(reader, bearing, Mode { may_terminate: true, remembered }).await
}

#[derive(Clone, Copy)]
struct Mode<'a> {
    may_terminate: bool,
    remembered: &'a [Resolution],
}

/// Resolves each; of several failures the least conclusive is returned.
async fn resolve(
    reader: &impl Reader,
    declared: impl Iterator<Item = &Declared>,
    mode: Mode<'_>,
) -> Result<Resolved, Unresolved> {
    let mut resolved = Resolved::default();
    let mut worst: Option<Unresolved> = None;
    for it in declared {
        let found = match &it.reference {
            Reference::External(text) => Ok(it.resolution(None, text.clone())),
            Reference::Named(named) => {
                let read = reader.read(&it.target, named).await;
                let resolution = |text| it.resolution(read.uid().cloned(), text);
                judge(&read, mode.may_terminate).map(resolution)
            }
        };
        let recalled = |why| recall(it, mode.remembered).ok_or(why);
        match found.or_else(recalled) {
            Ok(resolution) => {
                resolved.0.insert(it.field, resolution);
            }
            Err(why) => worst = worst.max(Some(why)),
        }
    }
    worst.map_or(Ok(resolved), Err)
}

/// What one read says of a reference.
pub fn judge(read: &Read, may_terminate: bool) -> Result<IdentityText, Unresolved> {
    match read {
        Read::Absent => Err(Unresolved::NotFound),
        Read::KindNotInstalled => Err(Unresolved::KindNotInstalled),
        Read::Forbidden => Err(Unresolved::Forbidden),
        Read::Unavailable => Err(Unresolved::Unavailable),
        Read::Found(it) if it.terminating && !may_terminate => Err(Unresolved::Terminating),
        Read::Found(it) => match &it.external {
            None if it.terminating => Err(Unresolved::Terminating),
            None => Err(Unresolved::NotReady),
            Some(text) => text.parse().map_err(|_| Unresolved::Invalid),
        },
    }
}

/// What the same reference resolved to before.
fn recall(declared: &Declared, remembered: &[Resolution]) -> Option<Resolution> {
    let same = |it: &&Resolution| it.field == declared.field && it.reference == declared.reference;
    remembered.iter().find(same).cloned()
}

#[cfg(test)]
mod tests;
