//! Where the identity of a cloud object is found, from the surest place down.
//!
//! ```text
//!   recorded (ledger, or the stamp bound to this very object)
//!     └▶ searched (what carries our mark)
//!          └▶ spec (every identity-bearing reference is external, resolves, or once resolved)
//!               └▶ nothing: the deletion policy decides
//! ```
//!
//! An adapter asks [`rung`] what to ask the cloud about; the rules and `observe` decide what the
//! answers mean. What is on record always wins over what the spec says.

use super::aggregate::Resource;
use super::identity::{Identified, Identity};
use super::look::Object;
use super::model::Model;
use super::recorded::{Recorded, Unbound};
use super::reference::{Resolved, Unresolved};
use crate::object::kv::KvCoordinates;

/// What the cloud is to be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The identity on record; no reference has to be resolved to delete it.
    Recorded(Identified),
    /// Nothing is on record and something may have been sent: what carries our mark, and what the
    /// spec stands for.
    Search,
    /// Nothing was ever sent: nothing has to be asked.
    Nothing,
    /// The object is a copy of another one: nothing may be asked or done.
    Copy,
}

/// The rung that a life stands on.
pub fn rung(resource: &Resource, object: Option<&Object>) -> Rung {
    if let Some(identified) = resource.identity() {
        return Rung::Recorded(identified.clone());
    }
    let stamps = object.map(|it| [&it.stamp, &it.status]).into_iter().flatten().flatten();
    let read: Vec<_> = stamps.map(|it| Recorded::read(it, &resource.binding())).collect();
    if let Some(Ok(it)) = read.iter().find(|it| it.is_ok()) {
        return Rung::Recorded(it.identified().clone());
    }
    let foreign = |it: &Result<Recorded, Unbound>| matches!(it, Err(Unbound::Foreign { .. }));
    if read.iter().any(foreign) {
        return Rung::Copy;
    }
    if read.is_empty() && resource.is_witnessed() { Rung::Nothing } else { Rung::Search }
}

/// The identity that a spec stands for.
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
    use crate::direct::recorded::Standing;
    use crate::direct::reference::{Read, Referent, resolve_identity};
    use usher_kernel::Uid;

    fn stamped(text: String) -> Object {
        Object { stamp: Some(text), ..object() }
    }

    fn stamp(owner: &str) -> String {
        let binding = crate::direct::mark::Binding { object: Uid::new(owner), ..binding() };
        Recorded::new(binding, Standing::Gone, identified("a")).to_text()
    }

    #[test]
    fn the_surest_place_is_asked_first() {
        let witnessed = resource(|_| ());
        let lost = resource(|it| it.history = History::Lost);
        let recorded = resource(|it| it.identity = Some(identified("b")));
        let own = stamped(stamp("uid-1"));
        let status = Object { status: own.stamp.clone(), ..object() };
        let copied = stamped(stamp("another"));
        let broken = stamped("{".to_owned());
        let cases = [
            (&recorded, Some(&own), Rung::Recorded(identified("b")), "the ledger knows"),
            (&witnessed, Some(&own), Rung::Recorded(identified("a")), "the stamp knows"),
            (&lost, Some(&status), Rung::Recorded(identified("a")), "the status knows"),
            (&lost, Some(&copied), Rung::Copy, "a copy"),
            (&witnessed, Some(&copied), Rung::Copy, "a copy of a manifest"),
            (&lost, Some(&object()), Rung::Search, "lost"),
            (&lost, None, Rung::Search, "lost with its object"),
            (&witnessed, Some(&broken), Rung::Search, "something was there"),
            (&witnessed, Some(&object()), Rung::Nothing, "nothing was ever sent"),
        ];
        for (resource, object, expected, why) in cases {
            assert_eq!(rung(resource, object), expected, "{why}");
        }
    }

    #[test]
    fn a_spec_stands_for_an_identity_if_its_parents_resolve() {
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
