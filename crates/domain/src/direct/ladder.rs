//! Where the identity of a cloud object is found, from the surest place down.
//!
//! ```text
//!   recorded (the ledger)
//!     └▶ searched (what carries our mark)
//!          └▶ stamped (the name that the stamp bound to this very object gives)
//!               └▶ spec (every identity-bearing reference is external, resolves, or once resolved)
//!                    └▶ nothing: the deletion policy decides
//! ```
//!
//! [`rung`] says what an adapter queries the cloud for; the rules and `observe` decide what the
//! answers mean. What is on record always wins over what the spec says.

use super::aggregate::Resource;
use super::identity::{Identified, Identity};
use super::model::Model;
use super::recorded::{Recorded, Unbound};
use super::reference::{Resolved, Unresolved};
use super::snapshot::Object;
use crate::object::kv::KvCoordinates;
use crate::object::offender::shortened;

/// What the cloud is queried for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The identity on record; no reference has to be resolved to delete it.
    Recorded(Identified),
    /// Only the stamp names it: what carries our mark is searched for, too.
    Stamped(Identified),
    /// Nothing is on record and something may have been sent: what carries our mark is searched
    /// for, and the references that bear the identity are resolved.
    Search,
    /// Nothing was ever sent: the cloud need not be queried.
    Nothing,
    /// The object is a copy of another one: the cloud may not be queried or changed.
    Copy,
}

/// The rung of a resource.
pub fn rung(resource: &Resource, object: Option<&Object>, credential: &KvCoordinates) -> Rung {
    if let Some(identified) = resource.identity() {
        return Rung::Recorded(identified.clone());
    }
    match Stamped::read(resource, object, credential) {
        Stamped::Bound(it) => Rung::Stamped(it.identified().clone()),
        Stamped::Not(Unbound::Foreign(_)) => Rung::Copy,
        Stamped::Nothing if resource.is_witnessed() => Rung::Nothing,
        Stamped::Nothing | Stamped::Not(Unbound::Malformed(_)) => Rung::Search,
    }
}

/// What the object itself carries of its recorded identity.
///
/// Every user with write access to the object may write a stamp. So it gives a name, and never the
/// owner of the cloud object under that name.
pub(super) enum Stamped {
    /// No stamp.
    Nothing,
    /// A name of this object.
    Bound(Recorded),
    /// No record of this object.
    Not(Unbound),
}

impl Stamped {
    /// Annotation and status carry the same stamp; one of them may be lost or old.
    pub(super) fn read(
        resource: &Resource,
        object: Option<&Object>,
        credential: &KvCoordinates,
    ) -> Self {
        let own = object.filter(|it| it.uid == resource.object().uid);
        let texts = own.into_iter().flat_map(|it| [&it.stamp, &it.status]).flatten();
        let rank = |it: &Self| match it {
            Self::Bound(_) => 3,
            Self::Not(Unbound::Foreign(_)) => 2,
            Self::Not(Unbound::Malformed(_)) => 1,
            Self::Nothing => 0,
        };
        let stamps = texts.map(|it| Self::one(it, resource, credential));
        stamps.fold(Self::Nothing, |best, it| if rank(&it) > rank(&best) { it } else { best })
    }

    fn one(text: &str, resource: &Resource, credential: &KvCoordinates) -> Self {
        match Recorded::read(text, &resource.binding()) {
            Err(why) => Self::Not(why),
            // Nothing was ever sent: its writer had it from elsewhere.
            Ok(_) if resource.is_witnessed() => Self::Not(Unbound::Foreign(shortened(text))),
            // We write no credential that the object may not use.
            Ok(it) if it.identified().credential != *credential => {
                Self::Not(Unbound::Malformed(shortened(text)))
            }
            Ok(it) => Self::Bound(it),
        }
    }
}

/// The identity that a spec resolves to.
pub fn identify<M: Model>(
    spec: &M::Spec,
    resolved: &Result<Resolved, Unresolved>,
    credential: &KvCoordinates,
) -> Result<Identified, Unresolved> {
    let parents = resolved.as_ref().map_err(|why| *why)?;
    let identity = M::identify(spec, parents).map_err(|_| Unresolved::Invalid)?;
    Ok(Identified { credential: credential.clone(), identity: identity.format() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::aggregate::History;
    use crate::direct::fixture::{
        Memberships, binding, declared, finished, identified, object, resource, spec,
    };
    use crate::direct::fixture::{Readings, credential};
    use crate::direct::recorded::IdentityState;
    use crate::direct::reference::{Read, Referent, resolve_identity};
    use usher_kernel::Uid;

    fn stamped(text: String) -> Object {
        Object { stamp: Some(text), ..object() }
    }

    fn stamp(owner: &str) -> String {
        let binding = crate::direct::mark::Binding { object: Uid::new(owner), ..binding() };
        Recorded::new(binding, IdentityState::Gone, identified("a")).to_text()
    }

    // Requirement: I-15, I-40
    #[test]
    fn the_surest_source_is_read_first() {
        let witnessed = resource(|_| ());
        let lost = resource(|it| it.history = History::Lost);
        let recorded = resource(|it| it.identity = Some(identified("b")));
        let own = stamped(stamp("uid-1"));
        let status = Object { status: own.stamp.clone(), ..object() };
        let successor = Object { uid: Uid::new("uid-2"), ..own.clone() };
        let copied = stamped(stamp("another"));
        let broken = stamped("{".to_owned());
        let cases = [
            (&recorded, Some(&own), Rung::Recorded(identified("b")), "the ledger knows"),
            (&lost, Some(&own), Rung::Stamped(identified("a")), "the stamp knows"),
            (&lost, Some(&status), Rung::Stamped(identified("a")), "the status knows"),
            (&witnessed, Some(&own), Rung::Copy, "a stamp that no resource of ours wrote"),
            (&lost, Some(&successor), Rung::Search, "a stamp on another object"),
            (&lost, Some(&copied), Rung::Copy, "a copy"),
            (&witnessed, Some(&copied), Rung::Copy, "a copy of a manifest"),
            (&lost, Some(&object()), Rung::Search, "lost"),
            (&lost, None, Rung::Search, "lost with its object"),
            (&witnessed, Some(&broken), Rung::Search, "something was there"),
            (&witnessed, Some(&object()), Rung::Nothing, "nothing was ever sent"),
        ];
        for (resource, object, expected, why) in cases {
            assert_eq!(rung(resource, object, &credential()), expected, "{why}");
        }
        let elsewhere = KvCoordinates::new("kv", "clouds/other").unwrap();
        assert_eq!(rung(&lost, Some(&own), &elsewhere), Rung::Search, "not its credential");
    }

    #[test]
    fn a_spec_gives_an_identity_if_its_parents_resolve() {
        let parent = |external: Option<&str>| {
            let external = external.map(str::to_owned);
            Readings::new([(
                "parent",
                Read::Found(Referent { uid: Uid::new("r"), external, terminating: true }),
            )])
        };
        let identity = |reader: &Readings| {
            let resolved = finished(resolve_identity(reader, &declared(), &[]));
            identify::<Memberships>(&spec(), &resolved, &credential())
        };
        assert_eq!(identity(&parent(Some("projects/a"))), Ok(identified("a")));
        assert_eq!(identity(&parent(Some("folders/a"))), Err(Unresolved::Invalid));
        assert_eq!(identity(&parent(None)), Err(Unresolved::Terminating));
    }
}
