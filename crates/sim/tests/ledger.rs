//! The promises of every ledger are kept by one in memory, and each is broken by some defect of it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use usher_kernel::{Condition, Decision, Ledger, NameLedger, Record, Trouble, Version};
use usher_sim::contract::ledger::{Lamp, Meddling, PROMISES, Reason, State, TestLedger, keep};

const NOTE_MAX: usize = 256 * 1024;
const SHOWN_MAX: usize = 100;

/// What a ledger can do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    SkipVersion,
    SkipEpoch,
    SendLate,
    LoseNames,
    LoseReason,
    ReportAlways,
    ReplaceNames,
    KeepAllNames,
    NoLimit,
    TakeErrorForAbsence,
    TakeOlderForPresent,
    GiveUpLostAnswers,
    TrustLostRequests,
    IgnorePace,
    OverwriteUnreadable,
    EndWithObject,
    InventRecord,
    WriteOnLoad,
}

#[derive(Clone, Debug)]
struct Stored {
    version: Version,
    epoch: u64,
    state: State,
    names: NameLedger,
    reason: Option<Reason>,
    trouble: Option<String>,
    is_readable: bool,
}

#[derive(Clone, Debug, Default)]
struct Server {
    record: Option<Stored>,
    revision: u64,
}

#[derive(Debug)]
struct Shelf {
    defect: Option<Defect>,
    server: RefCell<Server>,
    backup: RefCell<Server>,
    fault: RefCell<Meddling>,
    /// The highest revision that was seen.
    seen: RefCell<u64>,
    writes: RefCell<u64>,
}

/// What a step loaded.
#[derive(Clone, Debug, Default)]
enum Loaded {
    #[default]
    Nothing,
    Absent,
    Present(Stored),
}

struct Opened<'a> {
    shelf: &'a Shelf,
    epoch: u64,
    is_late: bool,
    has_object: bool,
    loaded: RefCell<Loaded>,
}

impl Shelf {
    fn new(defect: Option<Defect>) -> Self {
        Self {
            defect,
            server: RefCell::default(),
            backup: RefCell::default(),
            fault: RefCell::new(Meddling::Mend),
            seen: RefCell::default(),
            writes: RefCell::default(),
        }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn opened(&self, epoch: u64, is_late: bool, has_object: bool) -> Opened<'_> {
        Opened { shelf: self, epoch, is_late, has_object, loaded: RefCell::default() }
    }

    /// Writes over a version; nothing if another is there.
    fn write(&self, before: Version, mut next: Stored) -> Result<Version, Trouble> {
        *self.writes.borrow_mut() += 1;
        let fault = *self.fault.borrow();
        match fault {
            Meddling::Busy(after) => {
                let after = (!self.has(Defect::IgnorePace)).then_some(after);
                return Err(Trouble::Unavailable { what: "the shelf".to_owned(), after });
            }
            Meddling::Forbid => return Err(Trouble::Rejected { what: "the shelf".to_owned() }),
            Meddling::LoseRequests if self.has(Defect::TrustLostRequests) => return Ok(before),
            Meddling::LoseRequests => return Err(Trouble::unavailable("the shelf")),
            Meddling::LoseAnswers
            | Meddling::Hide
            | Meddling::Mend
            | Meddling::Backup
            | Meddling::Restore
            | Meddling::Remove
            | Meddling::Spoil => {}
        }
        let mut server = self.server.borrow_mut();
        let present = server.record.as_ref().map_or(Version(0), |it| it.version);
        if present != before && !self.has(Defect::SkipVersion) {
            return Err(Trouble::Conflict);
        }
        server.revision += 1;
        next.version = Version(server.revision);
        server.record = Some(next);
        if fault == Meddling::LoseAnswers && self.has(Defect::GiveUpLostAnswers) {
            return Err(Trouble::unavailable("the shelf"));
        }
        *self.seen.borrow_mut() = server.revision;
        Ok(Version(server.revision))
    }
}

impl Opened<'_> {
    fn has(&self, defect: Defect) -> bool {
        self.shelf.has(defect)
    }

    /// The record that was loaded, for a write within the term.
    fn before(&self) -> Result<Option<Stored>, Trouble> {
        if self.is_late && !self.has(Defect::SendLate) {
            return Err(Trouble::unavailable("the term has ended"));
        }
        match self.loaded.borrow().clone() {
            Loaded::Present(stored) => Ok(Some(stored)),
            Loaded::Absent => Ok(None),
            Loaded::Nothing if self.has(Defect::OverwriteUnreadable) => {
                Ok(self.shelf.server.borrow().record.clone())
            }
            Loaded::Nothing => Err(Trouble::Conflict),
        }
    }
}

impl Ledger<Lamp> for Opened<'_> {
    async fn load(&self) -> Result<Option<Record<State>>, Trouble> {
        if self.has(Defect::WriteOnLoad) {
            *self.shelf.writes.borrow_mut() += 1;
        }
        let hidden = *self.shelf.fault.borrow() == Meddling::Hide;
        if hidden && !self.has(Defect::TakeErrorForAbsence) {
            return Err(Trouble::unavailable("the shelf"));
        }
        let server = self.shelf.server.borrow().clone();
        let is_older = server.revision < *self.shelf.seen.borrow();
        if is_older && !self.has(Defect::TakeOlderForPresent) {
            return Err(Trouble::unavailable("the present state"));
        }
        let Some(found) = server.record.filter(|_| !hidden) else {
            *self.loaded.borrow_mut() = Loaded::Absent;
            let has_object = self.has_object || self.has(Defect::InventRecord);
            let state = has_object.then(State::initial);
            let name_ledger = NameLedger::default();
            return Ok(state.map(|state| Record { version: Version(0), state, name_ledger }));
        };
        if !self.has_object && self.has(Defect::EndWithObject) {
            return Ok(None);
        }
        if found.epoch > self.epoch && !self.has(Defect::SkipEpoch) {
            return Err(Trouble::Conflict);
        }
        if !found.is_readable {
            return Err(Trouble::Corrupt { what: "the record".to_owned() });
        }
        *self.loaded.borrow_mut() = Loaded::Present(found.clone());
        let Stored { version, state, names: name_ledger, .. } = found;
        Ok(Some(Record { version, state, name_ledger }))
    }

    async fn commit(&self, version: Version, decision: &Decision<Lamp>) -> Result<(), Trouble> {
        let before = self.before()?;
        let held = before.as_ref().map_or(Version(0), |it| it.version);
        if held != version && !self.has(Defect::SkipVersion) {
            return Err(Trouble::Conflict);
        }
        if decision.next.note.len() > NOTE_MAX && !self.has(Defect::NoLimit) {
            return Err(Trouble::Rejected { what: "the size of the record".to_owned() });
        }
        let names = before.map(|it| it.names).filter(|_| !self.has(Defect::ReplaceNames));
        let mut names = names.unwrap_or_default();
        if !self.has(Defect::LoseNames) {
            names = names.with(&decision.rows);
        }
        if !self.has(Defect::KeepAllNames) {
            names = names.compacted(|name| decision.next.means(name));
        }
        let reason = (!self.has(Defect::LoseReason)).then_some(decision.reason);
        let next = Stored {
            version,
            epoch: self.epoch,
            state: decision.next.clone(),
            names,
            reason,
            trouble: None,
            is_readable: true,
        };
        let version = self.shelf.write(held, next.clone())?;
        *self.loaded.borrow_mut() = Loaded::Present(Stored { version, ..next });
        Ok(())
    }

    fn condition(&self) -> Option<Condition<Reason>> {
        let Loaded::Present(stored) = self.loaded.borrow().clone() else { return None };
        Some(Condition { reason: stored.reason, trouble: stored.trouble })
    }

    async fn report(&self, condition: &Condition<Reason>) -> Result<(), Trouble> {
        let Some(before) = self.before()? else { return Ok(()) };
        let trouble = condition.trouble.as_ref().map(|it| it.chars().take(SHOWN_MAX).collect());
        let shown = (before.reason, &before.trouble);
        if shown == (condition.reason, &trouble) && !self.has(Defect::ReportAlways) {
            return Ok(());
        }
        let reason = condition.reason.filter(|_| !self.has(Defect::LoseReason));
        let next = Stored { reason, trouble, epoch: self.epoch, ..before.clone() };
        let version = self.shelf.write(before.version, next.clone())?;
        *self.loaded.borrow_mut() = Loaded::Present(Stored { version, ..next });
        Ok(())
    }
}

impl TestLedger for Shelf {
    fn open(&self, epoch: u64) -> impl Ledger<Lamp> {
        self.opened(epoch, false, true)
    }

    fn open_late(&self, epoch: u64) -> impl Ledger<Lamp> {
        self.opened(epoch, true, true)
    }

    fn open_without_object(&self, epoch: u64) -> impl Ledger<Lamp> {
        self.opened(epoch, false, false)
    }

    fn writes(&self) -> u64 {
        *self.writes.borrow()
    }

    async fn meddle(&self, meddling: Meddling) -> bool {
        let mut server = self.server.borrow_mut();
        match meddling {
            Meddling::Backup => self.backup.borrow_mut().clone_from(&server),
            Meddling::Restore => server.clone_from(&self.backup.borrow()),
            Meddling::Remove => {
                server.record = None;
                server.revision += 1;
            }
            Meddling::Spoil => {
                if let Some(record) = &mut server.record {
                    record.is_readable = false;
                }
            }
            Meddling::LoseAnswers
            | Meddling::LoseRequests
            | Meddling::Busy(_)
            | Meddling::Forbid
            | Meddling::Hide
            | Meddling::Mend => *self.fault.borrow_mut() = meddling,
        }
        true
    }
}

/// Whether a promise is kept by a ledger with this defect. Nothing here ever waits.
fn is_kept(promise: &str, defect: Option<Defect>) -> bool {
    let tried = catch_unwind(AssertUnwindSafe(|| {
        let shelf = Shelf::new(defect);
        let mut tried = pin!(keep(promise, &shelf));
        let polled = tried.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Ready(true), "{promise}");
    }));
    tried.is_ok()
}

// Requirement: KR-7
#[test]
fn the_ledger_in_memory_keeps_every_promise() {
    let broken: Vec<_> = PROMISES.iter().filter(|it| !is_kept(it, None)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}

/// Red by: a promise that no ledger can break.
// Requirement: KR-7
#[test]
fn every_promise_is_broken_by_a_defect() {
    const BROKEN: [(Defect, &str); 22] = [
        (Defect::InventRecord, "nothing_is_recorded_of_an_object_that_is_gone"),
        (Defect::WriteOnLoad, "a_record_begins_with_the_initial_state"),
        (Defect::EndWithObject, "a_record_outlives_its_object"),
        (Defect::LoseNames, "a_commit_writes_state_names_and_reason"),
        (Defect::ReplaceNames, "a_commit_writes_state_names_and_reason"),
        (Defect::SkipVersion, "a_commit_over_an_old_version_writes_nothing"),
        (Defect::SkipVersion, "of_two_first_commits_one_is_written"),
        (Defect::SkipVersion, "a_commit_needs_the_version_that_was_loaded"),
        (Defect::LoseReason, "a_reason_is_written_although_nothing_else_changed"),
        (Defect::ReportAlways, "a_condition_that_is_shown_is_not_written_again"),
        (Defect::SkipEpoch, "an_older_term_neither_reads_nor_writes"),
        (Defect::SendLate, "a_term_that_ended_sends_nothing"),
        (Defect::GiveUpLostAnswers, "a_commit_whose_answer_was_lost_is_done"),
        (Defect::TrustLostRequests, "a_commit_that_did_not_arrive_is_repeated_by_the_next_step"),
        (Defect::IgnorePace, "a_refusal_sets_the_pace_and_writes_nothing"),
        (Defect::TakeErrorForAbsence, "a_record_that_cannot_be_read_is_not_absent"),
        (Defect::TakeOlderForPresent, "a_record_that_is_older_than_before_is_not_read"),
        (Defect::TakeOlderForPresent, "a_record_that_is_missing_in_an_older_state_is_not_absent"),
        (Defect::SkipVersion, "a_record_that_was_removed_begins_again"),
        (Defect::OverwriteUnreadable, "a_record_that_is_unreadable_is_left_alone"),
        (Defect::KeepAllNames, "settled_names_that_nothing_means_are_bounded"),
        (Defect::NoLimit, "a_record_that_would_not_fit_is_left_as_it_was"),
    ];
    for (defect, promise) in BROKEN {
        assert!(!is_kept(promise, Some(defect)), "{promise} holds in spite of {defect:?}");
    }
    let unbroken: Vec<_> =
        PROMISES.iter().filter(|it| BROKEN.iter().all(|(_, promise)| promise != *it)).collect();
    assert!(unbroken.is_empty(), "{unbroken:?}");
}
