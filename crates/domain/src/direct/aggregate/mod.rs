//! The direct resource: one row, two constructors, one validation path.

use serde::{Deserialize, Serialize};
use usher_kernel::{Generation, Name, NameLedger, NameState, Row, Timestamp, Uid};

use super::facts::{Asked, Ended as EndedFact, GraceOver, Identity, RowFacts};
use super::identity::Identified;
use super::mark::{Binding, Mark, RequestId};
use super::orphan::OrphanRecord;
use super::phase::Phase;
use super::proof::{Ended, Outcome, ProvenAbsent};
use super::recorded::{self, Recorded};
use super::reference::Resolution;
use super::refusal::Refusal;
use super::verdict::{RecordChange, Verdict};
use crate::object::id::InstallationId;
use crate::object::label::{is_dns_label, is_dns_subdomain};

/// What a direct resource is, as stored. Public so that a store can fill it; only a [`Resource`]
/// made from it by [`Resource::hydrate`] may be decided upon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields {
    /// The Kubernetes object.
    pub object: ObjectKey,
    /// The installation that owns whatever it creates.
    pub installation: InstallationId,
    /// The kind in the identity ledger.
    pub kind: String,
    /// Whether the ledger was there before our finalizer was.
    pub history: History,
    pub phase: Phase,
    /// The identity whose name is current.
    pub identity: Option<Identified>,
    /// What the references resolved to when the identity was recorded.
    pub resolutions: Vec<Resolution>,
    /// Counts the cloud objects that were meant to exist, from one.
    pub generation: Generation,
    /// Counts the requests to create one, from one.
    pub attempt: u32,
    /// The last operation that was seen.
    pub operation: Option<String>,
    /// The operation that failed and was answered by a new request.
    pub spent: Option<String>,
    /// When deletion was first seen; written once.
    pub deletion_seen_at: Option<Timestamp>,
    /// When it was recorded that deletion of the cloud object is requested.
    pub asked_at: Option<Timestamp>,
    /// Until when absence does not count, because a late request may still arrive.
    pub grace_until: Option<Timestamp>,
    /// Until when it is watched for what a late request creates.
    pub watch_until: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What may be left behind.
    pub orphan: Option<OrphanRecord>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When the row last changed.
    pub updated_at: Timestamp,
    /// When the phase last changed.
    pub phase_since: Timestamp,
}

/// The Kubernetes object of a direct resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
    /// Its uid: another object of this name is another resource.
    pub uid: Uid,
}

impl ObjectKey {
    /// How people call it.
    pub fn to_text(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Whether the ledger was there before our finalizer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum History {
    /// It was: what it does not name was never sent.
    Witnessed,
    /// The object was ours before: the ledger, or the object, was restored.
    Lost,
}

/// A direct resource whose invariants hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    fields: Fields,
}

impl Resource {
    /// A stored row; one that breaks the invariants is refused here and not found out later.
    pub fn hydrate(fields: Fields) -> Result<Self, Refusal> {
        match first_offence(&fields) {
            Some(what) => Err(Refusal::InvalidInput(what.to_owned())),
            None => Ok(Self { fields }),
        }
    }

    /// Everything, for storing and showing.
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    pub const fn phase(&self) -> Phase {
        self.fields.phase
    }

    /// The Kubernetes object.
    pub const fn object(&self) -> &ObjectKey {
        &self.fields.object
    }

    /// The identity whose name is current.
    pub const fn identity(&self) -> Option<&Identified> {
        self.fields.identity.as_ref()
    }

    /// What a recorded identity of this resource is bound to.
    pub fn binding(&self) -> Binding {
        let Fields { object, installation, .. } = &self.fields;
        Binding { installation: *installation, object: object.uid.clone() }
    }

    /// How it ended, with its proof: its orphan record, or a name in its ledger that is
    /// gone, or a ledger that never sent anything. An outcome without that is no end.
    pub fn ended(&self, name_ledger: &NameLedger) -> Option<Ended> {
        let outcome = self.fields.outcome?;
        if let Some(record) = &self.fields.orphan {
            return Some(Ended::recorded(record));
        }
        let sent_nothing = || {
            let proof = ProvenAbsent::never_sent(self.is_witnessed(), name_ledger.rows());
            proof.filter(|_| outcome == Outcome::AlreadyAbsent)
        };
        let proof =
            name_ledger.rows().iter().find_map(ProvenAbsent::on_record).or_else(sent_nothing)?;
        Some(Ended::absent(proof, outcome == Outcome::Deleted))
    }

    /// Whether the end is on record.
    pub const fn is_ended(&self) -> bool {
        self.fields.outcome.is_some()
    }

    /// Whether the ledger was there from the start.
    pub const fn is_witnessed(&self) -> bool {
        matches!(self.fields.history, History::Witnessed)
    }

    /// Whether deletion was seen, so that absence may settle a name.
    pub const fn is_leaving(&self) -> bool {
        matches!(self.fields.phase, Phase::Deleting | Phase::Deleted)
    }

    /// Whether absence counts: no earlier request can still arrive.
    pub fn is_grace_over(&self, now: Timestamp) -> bool {
        self.fields.grace_until.is_none_or(|until| until <= now)
    }

    /// The name of an identity in the ledger, in the current generation.
    pub fn name_of(&self, identified: &Identified) -> Name {
        identified.name(&self.fields.kind, self.fields.generation)
    }

    /// The newest row of the current name.
    pub fn current<'a>(&self, name_ledger: &'a NameLedger) -> Option<&'a Row> {
        name_ledger.latest(&self.name_of(self.identity()?))
    }

    /// The mark that the current attempt puts on what it creates.
    pub fn mark(&self) -> Mark {
        let owner = self.binding();
        let request = RequestId::of(&owner, self.fields.attempt);
        Mark { owner, request }
    }

    /// Whether a mark is ours: our object and installation, and a request that we sent. Where the
    /// ledger was lost it is unknown which requests those were.
    pub fn owns(&self, mark: &Mark) -> bool {
        let sent =
            || (1..=self.fields.attempt).any(|it| RequestId::of(&mark.owner, it) == mark.request);
        mark.owner == self.binding() && (!self.is_witnessed() || sent())
    }

    /// The record of the current name, as the object shall carry it.
    pub fn recorded(&self, name_ledger: &NameLedger) -> Option<Recorded> {
        let row = self.current(name_ledger)?;
        let state = match row.state {
            NameState::Intended => {
                recorded::IdentityState::Intended { request: self.mark().request }
            }
            NameState::Seen => recorded::IdentityState::Seen { uid: row.uid.clone()? },
            NameState::Gone => recorded::IdentityState::Gone,
            NameState::Foreign | NameState::Abandoned => return None,
        };
        Some(Recorded::new(self.binding(), state, self.identity()?.clone()))
    }

    /// The facts of the row. `unrecorded` is what the identity is where the ledger names none.
    pub fn facts(
        &self,
        name_ledger: &NameLedger,
        unrecorded: Identity,
        now: Timestamp,
    ) -> RowFacts {
        let Fields { phase, asked_at, watch_until, .. } = &self.fields;
        let identity = match self.current(name_ledger).map(|row| row.state) {
            None => unrecorded,
            Some(NameState::Intended) => Identity::Intended,
            Some(NameState::Seen) => Identity::Seen,
            Some(NameState::Gone) => Identity::Gone,
            Some(NameState::Foreign) => Identity::Foreign,
            Some(NameState::Abandoned) => Identity::Abandoned,
        };
        let is_grace_over = match phase {
            Phase::Deleted => watch_until.is_none_or(|until| until <= now),
            Phase::Pending | Phase::Creating | Phase::Ready | Phase::Deleting => {
                self.is_grace_over(now)
            }
        };
        RowFacts {
            phase: *phase,
            identity,
            grace_over: if is_grace_over { GraceOver::Yes } else { GraceOver::No },
            asked: if asked_at.is_some() { Asked::Yes } else { Asked::No },
            ended: if self.is_ended() { EndedFact::Yes } else { EndedFact::No },
        }
    }

    /// The row with the identity that this snapshot found for it.
    pub(super) fn identified(&self, identity: Option<Identified>) -> Self {
        let mut next = self.clone();
        next.fields.identity = self.fields.identity.clone().or(identity);
        next
    }

    /// The row after a verdict. Times move only if something else does.
    pub(super) fn turned(&self, verdict: Verdict, turned: Turned, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.fields.phase = verdict.phase;
        next.fields.operation = turned.operation.or(next.fields.operation);
        match verdict.change {
            None | Some(RecordChange::End(_)) => {}
            Some(RecordChange::Ask) => next.fields.asked_at = self.fields.asked_at.or(Some(now)),
            Some(RecordChange::Intend) => {
                let again = self.fields.identity.is_some();
                next.fields.generation =
                    if again { self.fields.generation.next() } else { self.fields.generation };
                next.fields.attempt += u32::from(again);
                next.fields.identity = turned.intended;
                next.fields.spent = next.fields.operation.take();
            }
            Some(RecordChange::Again) => {
                next.fields.attempt += 1;
                next.fields.spent = next.fields.operation.take();
            }
        }
        if verdict.phase == Phase::Deleting && next.fields.deletion_seen_at.is_none() {
            next.fields.deletion_seen_at = Some(now);
            next.fields.grace_until = self.fields.grace_until.max(turned.grace_until);
        }
        if let Some(ended) = turned.ended {
            next.fields.outcome = Some(ended.outcome());
            next.fields.orphan = turned.orphan;
        }
        if verdict.phase == Phase::Deleted && self.fields.phase != Phase::Deleted {
            next.fields.deletion_seen_at = self.fields.deletion_seen_at.or(Some(now));
            next.fields.watch_until = turned.watch_until;
        }
        next.touched(self, now)
    }

    /// The row after a person gave it up.
    pub(super) fn abandoned(&self, record: OrphanRecord, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.fields.outcome = Some(Ended::recorded(&record).outcome());
        next.fields.orphan = Some(record);
        next.touched(self, now)
    }

    fn touched(mut self, before: &Self, now: Timestamp) -> Self {
        if self == *before {
            return self;
        }
        let now = now.max(before.fields.updated_at);
        self.fields.updated_at = now;
        if self.fields.phase != before.fields.phase {
            self.fields.phase_since = now;
        }
        self
    }
}

/// What a verdict writes into the row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turned {
    /// The identity to record.
    pub(super) intended: Option<Identified>,
    /// The newest operation.
    pub(super) operation: Option<String>,
    /// Until when absence does not count.
    pub(super) grace_until: Option<Timestamp>,
    /// Until when it is watched after its end.
    pub(super) watch_until: Option<Timestamp>,
    /// The end.
    pub(super) ended: Option<Ended>,
    /// What may be left behind by it.
    pub(super) orphan: Option<OrphanRecord>,
}

fn first_offence(fields: &Fields) -> Option<&'static str> {
    let outcome = fields.outcome;
    let recorded = fields.orphan.as_ref().map(OrphanRecord::outcome);
    let owed = outcome.filter(|it| it.needs_record());
    let seen = fields.deletion_seen_at.is_some();
    let leaving = matches!(fields.phase, Phase::Deleting | Phase::Deleted);
    let rules = [
        (!is_dns_label(&fields.object.namespace), "namespace"),
        (!is_dns_subdomain(&fields.object.name), "name"),
        (fields.object.uid.0.is_empty(), "uid"),
        (fields.installation.is_zero(), "installation"),
        (fields.kind.is_empty(), "kind"),
        (fields.generation < Generation::FIRST, "generation"),
        (fields.attempt == 0, "attempt"),
        (fields.created_at == Timestamp::ZERO, "created_at"),
        (fields.updated_at < fields.created_at, "updated_at"),
        (fields.phase_since < fields.created_at, "phase_since"),
        (leaving != seen, "deletion_seen_at"),
        (fields.asked_at.is_some() && !leaving, "asked_at"),
        (outcome.is_some() && !leaving, "outcome"),
        (outcome.is_none() && fields.phase == Phase::Deleted, "outcome"),
        (owed != recorded, "orphan"),
    ];
    rules.into_iter().find_map(|(broken, what)| broken.then_some(what))
}

#[cfg(test)]
mod tests;
