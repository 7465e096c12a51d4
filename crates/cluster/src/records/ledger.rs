//! The ledger of one object, for one step.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use usher_kernel::{Condition, Decision, Ledger, Lifecycle, NameLedger, Record, Trouble, Version};

use super::collection::{Records, Write};
use super::content::{Codec, Content, Emitted};
use super::object::{Of, RecordObject, Spec};
use super::{REASON_MAX, TROUBLE_MAX};
use crate::answer::{self, Failure, Refusal, WriteFailure};
use crate::lease::Term;

/// The version of a record that is not created yet.
const UNCREATED: Version = Version(0);

/// The record of one object: loaded, and written within a term of the Lease.
///
/// *Guarantees*: a write is sent once, over the version that was loaded, in a term that permits it
/// and is not older than the record's. If its answer was lost, the record is read again, and the
/// write is done if the record says so.
///
/// *Errors*: [`Trouble::Conflict`] if another writer was faster or has a newer term;
/// [`Trouble::Corrupt`] if the content cannot be read; [`Trouble::Rejected`] if it would not fit;
/// [`Trouble::Unavailable`] if the term permits no request, and if the outcome is not known.
pub struct RecordLedger<'a, L, C> {
    records: &'a Records,
    of: Of,
    name: String,
    term: &'a Term,
    codec: C,
    /// The record as it was last read or written.
    current: Mutex<Current>,
    kind: PhantomData<fn() -> L>,
}

/// A record as this step knows it.
#[derive(Clone, Debug, Default)]
enum Current {
    #[default]
    Unknown,
    Absent,
    Present(Box<Known>),
}

#[derive(Clone, Debug)]
struct Known {
    object: RecordObject,
    version: Version,
    names: NameLedger,
    event: Option<Emitted>,
}

impl<'a, L: Lifecycle, C: Codec<L>> RecordLedger<'a, L, C> {
    pub(super) fn new(records: &'a Records, of: Of, term: &'a Term, codec: C) -> Self {
        let name = of.record_name();
        let current = Mutex::default();
        Self { records, of, name, term, codec, current, kind: PhantomData }
    }

    /// The event of the last crossing, if there was one.
    pub fn event(&self) -> Option<Emitted> {
        self.known()?.event
    }

    /// Deletes the record, which was loaded and has nothing left to tear down. The record of an
    /// orphan stays.
    pub async fn end(&self) -> Result<(), Trouble> {
        let known = match self.current().clone() {
            Current::Unknown => return Err(Trouble::Conflict),
            Current::Absent => return Ok(()),
            Current::Present(known) => known,
        };
        if known.object.is_orphan() {
            let record = self.records.display(&self.name);
            return Err(Trouble::Blocked {
                what: format!("{record}: it is the record of an orphan"),
            });
        }
        let sent = self.term.send(self.records.delete(&self.name, &known.object)).await?;
        let ended = match sent {
            Ok(()) => true,
            Err(failure) => self.is_gone(&failure, known.version).await?,
        };
        if ended {
            self.records.forget(&self.name);
            *self.current() = Current::Absent;
        }
        Ok(())
    }

    /// What a failed deletion means: done, or trouble.
    async fn is_gone(&self, failure: &Failure, before: Version) -> Result<bool, Trouble> {
        let trouble = match failure.write(answer::Write::OwnRecord) {
            WriteFailure::Ended | WriteFailure::Done => return Ok(true),
            WriteFailure::Taken | WriteFailure::ProbeRefused => Trouble::Conflict,
            WriteFailure::Trouble(trouble) => trouble,
        };
        if !may_have_arrived(failure, &trouble) {
            return Err(trouble);
        }
        match self.records.read(&self.name).await {
            Ok(None) => Ok(true),
            Ok(Some(found)) if found.version() != Some(before) => Err(Trouble::Conflict),
            Ok(Some(_)) | Err(_) => {
                self.term.note_unanswered();
                Err(trouble)
            }
        }
    }

    /// Checks a record that was read, and keeps it.
    fn take(&self, object: RecordObject) -> Result<Record<L::State>, Trouble> {
        let record = self.records.display(&self.name);
        let corrupt = |why: String| Trouble::Corrupt { what: format!("{record}: {why}") };
        if !object.spec.of.is_same(&self.of) {
            let (found, of) = (&object.spec.of, &self.of);
            return Err(corrupt(format!("it is about {found}, and not about {of}")));
        }
        if object.spec.epoch > self.term.epoch() {
            return Err(Trouble::Conflict);
        }
        let version = object.version().ok_or(Trouble::Conflict)?;
        let Content { state, names, event } = Content::read(&record, &object.spec.data)?;
        let state = self.codec.decode(state).map_err(corrupt)?;
        let name_ledger = names.clone();
        *self.current() = Current::Present(Box::new(Known { object, version, names, event }));
        Ok(Record { version, state, name_ledger })
    }

    /// The record as a decision makes it.
    fn decided(&self, before: Option<&Known>, decision: &Decision<L>) -> Result<Known, Trouble> {
        let (codec, next) = (&self.codec, &decision.next);
        let names = before.map_or_else(NameLedger::default, |it| it.names.clone());
        let names = names.with(&decision.rows).compacted(|name| codec.is_meant(next, name));
        let last = before.and_then(|it| it.event.clone());
        let number = last.as_ref().map_or(0, |it| it.number).saturating_add(1);
        let event = decision.event.as_ref().map(|it| Emitted { number, event: codec.event(it) });
        let event = event.or(last);
        let content =
            Content { state: codec.encode(next), names: names.clone(), event: event.clone() };
        let spec = Spec {
            of: before.map_or_else(|| self.of.clone(), |it| it.object.spec.of.clone()),
            epoch: self.term.epoch(),
            phase: codec.phase(next).to_owned(),
            reason: shortened(codec.reason(decision.reason), REASON_MAX),
            trouble: String::new(),
            target: codec.target(next),
            data: content.write(&self.records.display(&self.name))?,
        };
        let metadata = before.map(|it| it.object.metadata.clone()).unwrap_or_default();
        let version = before.map_or(UNCREATED, |it| it.version);
        Ok(Known { object: RecordObject { metadata, spec }, version, names, event })
    }

    /// Sends a write in the term; what it made of the record.
    async fn write(
        &self,
        before: Version,
        write: &Write<'_>,
    ) -> Result<Box<RecordObject>, Trouble> {
        let failure = match self.term.send(self.records.write(&self.name, write)).await? {
            Ok(written) => return Ok(written),
            Err(failure) => failure,
        };
        let meant = match write {
            Write::Create { .. } => answer::Write::Create,
            Write::Patch { .. } | Write::Condition { .. } => answer::Write::OwnRecord,
        };
        let trouble = match failure.write(meant) {
            WriteFailure::Trouble(trouble) => trouble,
            WriteFailure::Taken
            | WriteFailure::Ended
            | WriteFailure::Done
            | WriteFailure::ProbeRefused => Trouble::Conflict,
        };
        if !may_have_arrived(&failure, &trouble) {
            return Err(trouble);
        }
        match self.records.read(&self.name).await {
            Ok(Some(found)) if write.is_done(&found) => Ok(found),
            Ok(found) if found.as_ref().map_or(UNCREATED, |it| version(it)) != before => {
                Err(Trouble::Conflict)
            }
            // It may still arrive.
            Ok(_) | Err(_) => {
                self.term.note_unanswered();
                Err(trouble)
            }
        }
    }

    fn known(&self) -> Option<Known> {
        match &*self.current() {
            Current::Present(known) => Some((**known).clone()),
            Current::Unknown | Current::Absent => None,
        }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Lifecycle, C: Codec<L>> Ledger<L> for RecordLedger<'_, L, C> {
    async fn load(&self) -> Result<Option<Record<L::State>>, Trouble> {
        *self.current() = Current::Unknown;
        if let Some(object) = self.records.read(&self.name).await? {
            return self.take(*object).map(Some);
        }
        *self.current() = Current::Absent;
        let initial = self.codec.initial();
        let name_ledger = NameLedger::default();
        Ok(initial.map(|state| Record { version: UNCREATED, state, name_ledger }))
    }

    async fn commit(&self, version: Version, decision: &Decision<L>) -> Result<(), Trouble> {
        let before = match self.current().clone() {
            Current::Unknown => return Err(Trouble::Conflict),
            Current::Absent => None,
            Current::Present(known) => Some(known),
        };
        if before.as_ref().map_or(UNCREATED, |it| it.version) != version {
            return Err(Trouble::Conflict);
        }
        let mut next = self.decided(before.as_deref(), decision)?;
        let (spec, orphan) = (&next.object.spec, self.codec.is_orphan(&decision.next));
        let write = match before {
            None => Write::Create { spec, orphan },
            Some(_) => Write::Patch { version, spec, orphan },
        };
        let written = self.write(version, &write).await;
        if written.is_err() {
            *self.current() = Current::Unknown;
        }
        next.object = *written?;
        next.version = self::version(&next.object);
        *self.current() = Current::Present(Box::new(next));
        Ok(())
    }

    fn condition(&self) -> Option<Condition<L::Reason>> {
        let spec = self.known()?.object.spec;
        let trouble = (!spec.trouble.is_empty()).then_some(spec.trouble);
        Some(Condition { reason: self.codec.reason_of(&spec.reason), trouble })
    }

    async fn report(&self, condition: &Condition<L::Reason>) -> Result<(), Trouble> {
        // What nothing was recorded of shows nothing.
        let Some(mut known) = self.known() else { return Ok(()) };
        let shown = known.object.spec.clone();
        let reason = condition.reason.map(|it| shortened(self.codec.reason(it), REASON_MAX));
        let trouble = shortened(condition.trouble.as_deref().unwrap_or_default(), TROUBLE_MAX);
        let spec = &mut known.object.spec;
        (spec.epoch, spec.trouble) = (self.term.epoch(), trouble);
        spec.reason = reason.unwrap_or_else(|| shown.reason.clone());
        if (&spec.reason, &spec.trouble) == (&shown.reason, &shown.trouble) {
            return Ok(());
        }
        let version = known.version;
        let write = Write::Condition { version, spec: &known.object.spec };
        known.object = *self.write(version, &write).await?;
        known.version = self::version(&known.object);
        *self.current() = Current::Present(Box::new(known));
        Ok(())
    }
}

impl<L, C> std::fmt::Debug for RecordLedger<'_, L, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordLedger").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Write<'_> {
    /// Whether a record is as this write makes it. The epoch in it tells two holders of the Lease
    /// apart who wrote the same.
    fn is_done(&self, found: &RecordObject) -> bool {
        match self {
            Self::Create { spec, orphan } | Self::Patch { spec, orphan, .. } => {
                found.spec == **spec && found.is_orphan() == *orphan
            }
            Self::Condition { spec, .. } => found.spec == **spec,
        }
    }
}

/// Whether a request that failed may have been carried out, or may be yet. One that there were too
/// many of was not.
fn may_have_arrived(failure: &Failure, trouble: &Trouble) -> bool {
    let is_refused = matches!(failure, Failure::Refused(Refusal { code: 429, .. }));
    matches!(trouble, Trouble::Unavailable { .. }) && !is_refused
}

/// The version of a record that was read or written, and so has one.
fn version(object: &RecordObject) -> Version {
    object.version().unwrap_or_default()
}

/// A text cut at a character, so that it is shown.
fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((at, _)) => text[..at].to_owned(),
        None => text.to_owned(),
    }
}
