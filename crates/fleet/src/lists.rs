//! How a list is applied: which machines are notified, new or missing, and how far it is trusted.

use std::collections::BTreeSet;

use usher_domain::fleet::accept::Report;
use usher_domain::fleet::ident::MachineId;
use usher_domain::fleet::issue::Token;
use usher_domain::fleet::list::{Counts, Credence};
use usher_domain::fleet::plan::Slot;
use usher_domain::fleet::refusal::Refusal;
use usher_domain::fleet::snapshot::Source;
use usher_domain::object::authority::MassDeletionGuard;
use usher_kernel::{Timestamp, words};

use super::memory::{Memory, Message, ProviderAnswer};
use super::record::{Entry, Mark};

words! {
    /// What a list covers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Scope {
        /// All machines.
        Full = "full",
        /// Machines that changed since the last list.
        Delta = "delta",
    }
}

/// What remains to be done about a list.
#[derive(Debug, Default)]
pub struct Taken {
    /// How far its absences count; a list of changes has no absences.
    pub credence: Option<Credence>,
    /// Machines without a row.
    pub new: Vec<Report>,
    /// Machines without a row whose records cannot be decoded: read by id later.
    pub unread: BTreeSet<MachineId>,
    /// What was wrong with records.
    pub refused: Vec<Wrong>,
    /// Whether a record was lost: then the next list must not continue after this one.
    pub is_lossy: bool,
    /// How many machines were notified.
    pub notified: usize,
}

/// What was wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It could not be decoded.
    Undecodable,
    /// The same list had it before.
    Repeated,
    /// Its fields disagree, or its offer cannot be parsed.
    Refused(Refusal),
}

impl Wrong {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::Repeated => "repeated",
            Self::Refused(why) => why.code(),
        }
    }
}

/// A parsed record, before any machine was notified.
#[derive(Debug)]
pub struct Reading {
    /// The machine that it names, if it names one.
    named: Option<Named>,
    wrong: Option<Wrong>,
}

#[derive(Debug)]
struct Named {
    id: MachineId,
    answer: ProviderAnswer,
    report: Option<(Report, Mark)>,
}

/// Parses the records of a list: the part that needs no memory.
pub fn read(entries: Vec<Entry>) -> Vec<Reading> {
    entries.into_iter().map(read_one).collect()
}

fn read_one(entry: Entry) -> Reading {
    match entry {
        Entry::Lost => Reading { named: None, wrong: Some(Wrong::Undecodable) },
        Entry::Broken(id) => {
            let named = Some(Named { id, answer: ProviderAnswer::Broken, report: None });
            Reading { named, wrong: Some(Wrong::Undecodable) }
        }
        Entry::Whole(raw) => match Report::read(&raw) {
            Ok(report) => {
                let wrong = report.offer().err().cloned().map(Wrong::Refused);
                let (id, mark) = (report.id().clone(), Mark::of_report(&report));
                let answer = ProviderAnswer::Record(raw);
                Reading { named: Some(Named { id, answer, report: Some((report, mark)) }), wrong }
            }
            Err(why) => {
                let id = raw.id.parse::<MachineId>().ok();
                let answer = ProviderAnswer::Record(raw);
                let named = id.map(|id| Named { id, answer, report: None });
                Reading { named, wrong: Some(Wrong::Refused(why)) }
            }
        },
    }
}

impl Memory {
    /// Applies a list that began when `stamp` was made.
    pub fn take_in(
        &mut self,
        readings: Vec<Reading>,
        (scope, stamp): (Scope, Token),
        guard: Option<MassDeletionGuard>,
        now: Timestamp,
    ) -> Taken {
        let mut taken = Taken::default();
        let mut named: BTreeSet<u32> = BTreeSet::new();
        let mut unknown: BTreeSet<MachineId> = BTreeSet::new();
        let listed = readings.len();
        for Reading { named: record, wrong } in readings {
            taken.refused.extend(wrong);
            let Some(Named { id, answer, report }) = record else {
                taken.is_lossy = true;
                continue;
            };
            let found = self.find(&id);
            let first = match found {
                Some(slot) => named.insert(slot.0),
                None => unknown.insert(id.clone()),
            };
            match (found, report) {
                _ if !first => taken.refused.push(Wrong::Repeated),
                (Some(slot), report) => {
                    let message = Message { source: Source::List, stamp, answer };
                    let mark = report.map(|it| it.1);
                    taken.notified += usize::from(self.speak_to(slot, mark, message, now));
                }
                (None, Some((report, _))) => taken.new.push(report),
                (None, None) => _ = taken.unread.insert(id),
            }
        }
        match scope {
            Scope::Full => {
                let counts = Counts {
                    recorded: self.machines(),
                    missing: self.machines().saturating_sub(named.len()),
                    listed,
                    whole: !taken.is_lossy,
                };
                let credence = counts.credence(guard);
                taken.credence = Some(credence);
                taken.notified += self.weigh(credence, &named, stamp, now);
            }
            Scope::Delta => self.name_in_list(&named),
        }
        taken
    }

    /// Notifies a machine if a record of it has news; whether it does.
    fn speak_to(
        &mut self,
        slot: Slot,
        mark: Option<Mark>,
        message: Message,
        now: Timestamp,
    ) -> bool {
        let Some(entry) = self.known_machine(slot) else { return false };
        if mark == Some(entry.mark) && !entry.is_open {
            return false;
        }
        self.post(slot, message, now);
        true
    }

    /// Records how far a full list is trusted, and makes missing machines due; how many.
    fn weigh(
        &mut self,
        credence: Credence,
        named: &BTreeSet<u32>,
        stamp: Token,
        now: Timestamp,
    ) -> usize {
        let whole = credence == Credence::Whole;
        self.trust_list(whole);
        if !whole {
            return 0;
        }
        self.name_in_list(named);
        if named.len() == self.machines() {
            return 0;
        }
        let missing: Vec<Slot> = self.slots().filter(|it| !named.contains(&it.0)).collect();
        for slot in &missing {
            let message = Message { source: Source::List, stamp, answer: ProviderAnswer::Missing };
            self.post(*slot, message, now);
        }
        missing.len()
    }
}
