//! What the API server may do: a pure answer to each request that touches what is in use.
//!
//! Nothing is written while a request waits: a denial carries the deletion to record, and the
//! caller records it afterwards.
//!
//! **Invariants**
//! - An index that may lag denies and never allows: where it knows of no holder, the answer is to
//!   repeat with an index that has caught up. What needs no index (an object that is being deleted,
//!   a broken glass, a write that changes nothing that counts) is answered without one.
//! - A dry run is answered like the request itself and writes nothing.
//! - Crossplane's Usages are not answered here: they have their own admission.

use std::time::Duration;

use usher_kernel::{Timestamp, Uid};

use super::accept::{Surroundings, examine};
use super::aggregate::Usage;
use super::attempt::{Attempt, Origin, Progress, Propagation, REQUESTER_MAX};
use super::graph::{Entry, Graph, Through, shown};
use super::reference::{ObjectKey, Pick, UsageKey};
use super::refusal::Refusal;
use crate::object::closed::closed_set;
use crate::object::name::NAMESPACE_PREFIX;
use crate::object::offender::shortened;

/// How many blockers a denial names.
pub const BLOCKERS_MAX: usize = 64;

/// The settings of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// How long a denied deletion is remembered.
    pub lifetime: Duration,
}

impl Default for Admission {
    fn default() -> Self {
        Self { lifetime: Duration::from_hours(24) }
    }
}

/// A request that touches what may be in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// An object is to be deleted.
    Delete(Deletion),
    /// An object is to be written.
    Update(Update),
    /// A Usage is to be created or written.
    Declare(Box<Declaration>),
}

/// A deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub object: ObjectKey,
    pub uid: Uid,
    /// Whether it is being deleted already.
    pub deleting: bool,
    /// The note of a person that allows its deletion, if it carries one.
    pub break_glass: Option<String>,
    /// The uids of its owners.
    pub owners: Vec<Uid>,
    /// What is to happen to what it owns.
    pub propagation: Propagation,
    pub requester: String,
    pub dry_run: bool,
    /// Whether records of ours exist in it, if it is a project's namespace.
    pub rows_live: bool,
}

/// A write of an object that carries, or carried, a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub object: ObjectKey,
    /// Whether it carries a mark.
    pub marked: bool,
    /// Whether it will.
    pub keeps_mark: bool,
}

/// A Usage that is created or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// As it shall be.
    pub usage: Usage,
    /// As it is, if there is one.
    pub before: Option<Usage>,
    /// What only the server knows.
    pub around: Surroundings,
}

/// How new the index is that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It may lag.
    Cached,
    /// It has caught up with the server since the request arrived.
    Live,
}

/// What the server may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Allow; where a person broke the glass, the note for the audit.
    Allow(Option<String>),
    /// Stop.
    Deny(Box<Denial>),
    /// Repeat with an index that has caught up; if there is none, stop.
    Recheck,
}

/// Why the server denies, the blockers, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Why.
    pub refusal: Refusal,
    /// The first of the blockers.
    pub blockers: Vec<Blocker>,
    /// How many more there are.
    pub more: usize,
    /// What to do.
    pub remedy: Remedy,
    /// What to record afterwards, and in which Usages.
    pub record: Option<(UsageKey, Uid, Attempt)>,
}

/// A holder that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub usage: UsageKey,
    /// Which incarnation.
    pub uid: Uid,
    /// The users of the object.
    pub users: Vec<ObjectKey>,
    /// Why it is protected.
    pub reason: Option<String>,
}

closed_set! {
    /// What the denied requester can do.
    "remedy" Remedy {
        /// Delete the users; the denied deletion is replayed when they are gone.
        EndTheUse = "EndTheUse",
        /// Delete the Usage that protects it.
        DeleteTheUsage = "DeleteTheUsage",
        /// Delete the objects in the namespace first.
        EmptyTheNamespace = "EmptyTheNamespace",
        /// Keep the mark.
        KeepTheMark = "KeepTheMark",
        /// Correct the declaration.
        CorrectTheUsage = "CorrectTheUsage",
    }
}

impl Admission {
    /// Answers one request.
    pub fn admit(
        &self,
        request: &Request,
        index: &Graph,
        (freshness, now): (Freshness, Timestamp),
    ) -> Answer {
        match request {
            Request::Delete(deletion) => self.delete(deletion, index, (freshness, now)),
            Request::Update(update) => update_of(update, index, freshness),
            Request::Declare(declaration) => declare(declaration, index, freshness),
        }
    }

    /// What is being deleted cannot be held: a repeated request does nothing new.
    fn delete(
        &self,
        deletion: &Deletion,
        index: &Graph,
        (freshness, now): (Freshness, Timestamp),
    ) -> Answer {
        if deletion.deleting {
            return Answer::Allow(None);
        }
        if let Some(note) = deletion.break_glass.as_deref().filter(|it| !it.trim().is_empty()) {
            return Answer::Allow(Some(shortened(note)));
        }
        let object = &deletion.object;
        let holders: Vec<&Entry> = index.holders(object).collect();
        let record = holders
            .first()
            .map(|it| (it.usage.clone(), it.uid.clone(), self.attempt(deletion, now)));
        if !holders.is_empty() {
            let used = holders.iter().any(|it| !it.by.is_empty());
            let remedy = if used { Remedy::EndTheUse } else { Remedy::DeleteTheUsage };
            let denial = denial(Refusal::in_use(object), &holders, remedy);
            let record = record.filter(|_| !deletion.dry_run);
            return Answer::Deny(Box::new(Denial { record, ..denial }));
        }
        if object.is_namespace()
            && let Some(denial) = namespace(deletion, index)
        {
            return Answer::Deny(Box::new(denial));
        }
        unhindered(freshness)
    }

    fn attempt(&self, deletion: &Deletion, now: Timestamp) -> Attempt {
        Attempt {
            object: deletion.object.clone(),
            uid: deletion.uid.clone(),
            propagation: deletion.propagation,
            requester: deletion.requester.chars().take(REQUESTER_MAX).collect(),
            origin: Origin::judge(&deletion.requester, &deletion.owners),
            at: now,
            expires_at: now.after(self.lifetime),
            progress: Progress::Recorded,
        }
    }
}

/// A namespace may be deleted only if nothing in it would be left without its user, or without the
/// protection that was promised for a reason: what is used from within is deleted in order by
/// itself. The namespace of a project may be deleted only when nothing in it is in use and no
/// record exists in it.
fn namespace(deletion: &Deletion, index: &Graph) -> Option<Denial> {
    let name = &deletion.object.name;
    let project = name.starts_with(NAMESPACE_PREFIX);
    let from_within =
        |it: &Entry| !it.by.is_empty() && it.by.iter().all(|user| user.namespace == *name);
    let holders: Vec<&Entry> =
        index.holders_in(name).filter(|it| project || !from_within(it)).collect();
    let refusal = Refusal::NamespaceInUse(name.clone());
    let blocked = !holders.is_empty() || (project && deletion.rows_live);
    blocked.then(|| denial(refusal, &holders, Remedy::EmptyTheNamespace))
}

/// A mark may be removed when no Usage holds the object.
fn update_of(update: &Update, index: &Graph, freshness: Freshness) -> Answer {
    if !update.marked || update.keeps_mark {
        return Answer::Allow(None);
    }
    let holders: Vec<&Entry> = index.holders(&update.object).collect();
    if !holders.is_empty() {
        let refusal = Refusal::MarkInUse(update.object.to_string());
        return Answer::Deny(Box::new(denial(refusal, &holders, Remedy::KeepTheMark)));
    }
    unhindered(freshness)
}

/// A write that does not change the declaration is allowed, whatever the declaration says: no
/// client may be kept from releasing a Usage.
fn declare(declaration: &Declaration, index: &Graph, freshness: Freshness) -> Answer {
    let usage = &declaration.usage;
    if declaration.before.as_ref().is_some_and(|it| it.spec == usage.spec) {
        return Answer::Allow(None);
    }
    let refusal = match &usage.spec {
        Err(refusal) => Some(refusal.clone()),
        Ok(spec) => examine(&usage.key, spec, &declaration.around).err().or_else(|| {
            let named = |it: &super::reference::Reference| match &it.pick {
                Pick::Name(name) => vec![it.key(name)],
                Pick::Match(_) => vec![],
            };
            let of = named(&spec.of);
            let by = spec.by.as_ref().map_or(vec![], named);
            let circle = index.circle((&of, &by), Through::Others(&usage.uid))?;
            Some(Refusal::Circle(shown(&circle)))
        }),
    };
    match refusal {
        None => unhindered(freshness),
        Some(refusal) => Answer::Deny(Box::new(denial(refusal, &[], Remedy::CorrectTheUsage))),
    }
}

/// The index knows of no holder.
const fn unhindered(freshness: Freshness) -> Answer {
    match freshness {
        Freshness::Cached => Answer::Recheck,
        Freshness::Live => Answer::Allow(None),
    }
}

fn denial(refusal: Refusal, holders: &[&Entry], remedy: Remedy) -> Denial {
    let named = holders.iter().take(BLOCKERS_MAX).map(|it| Blocker {
        usage: it.usage.clone(),
        uid: it.uid.clone(),
        users: it.by.clone(),
        reason: it.reason.clone(),
    });
    let blockers: Vec<Blocker> = named.collect();
    let more = holders.len() - blockers.len();
    Denial { refusal, blockers, more, remedy, record: None }
}

#[cfg(test)]
mod tests;
