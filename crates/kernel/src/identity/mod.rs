//! The identity ledger's rules: every outside name a record ever had, and what is known of it.
//!
//! ```text
//!   intended ──ours──▶ seen ──absent──▶ gone ··· reappears with another uid: a new row, seen
//!      │  ╲─settled absent──────────────▶ ▲
//!      ├──another party's──▶ foreign      │
//!      └──────── abandoned (by command only, from any open state)
//! ```
//!
//! **Invariants**
//! - `Unknown` changes nothing.
//! - No answer changes a row that is gone or abandoned; what reappears is another row, and what
//!   was abandoned is reopened by command only.
//! - A foreign name is never deletable.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::{Generation, Uid};
use crate::time::Timestamp;

/// An outside name, recorded before it is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    /// What kind of thing it is: `Anchor`, `Token`, a Kubernetes `group/Kind`.
    pub kind: String,
    /// Where it is: a namespace, a cloud project, or empty.
    pub place: String,
    /// What it is called there.
    pub name: String,
    /// The generation it belongs to.
    pub generation: Generation,
}

crate::words! {
    /// What is known of a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum NameState {
        /// Recorded, perhaps requested, not seen yet.
        Intended = "intended",
        /// Seen, and ours.
        Seen = "seen",
        /// Positively absent.
        Gone = "gone",
        /// A foreign object has our name.
        Foreign = "foreign",
        /// Abandoned by command; an orphan record names it.
        Abandoned = "abandoned",
    }
}

impl NameState {
    /// Whether a record may be finished with a row in this state.
    pub const fn is_settled(self) -> bool {
        match self {
            Self::Intended | Self::Seen => false,
            Self::Gone | Self::Foreign | Self::Abandoned => true,
        }
    }
}

/// Which authority answered what, when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The authority that answered.
    pub by: String,
    /// What it answered.
    pub answer: String,
    /// When.
    pub at: Timestamp,
}

/// One row of the identity ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub name: Name,
    /// The plural under which a Kubernetes API serves its kind, once it is known: a kind that was
    /// removed cannot be discovered any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plural: Option<String>,
    /// Counts the objects that had the name, from one.
    pub incarnation: u32,
    /// What is known of it.
    pub state: NameState,
    /// The uid of the object that was seen as ours.
    pub uid: Option<Uid>,
    /// The evidence for the state.
    pub evidence: Evidence,
}

impl Row {
    /// A name that is about to be used.
    pub fn intended(name: Name, by: &str, at: Timestamp) -> Self {
        Self::new(name, 1, NameState::Intended, None, Evidence::new(by, "recorded", at))
    }

    fn new(
        name: Name,
        incarnation: u32,
        state: NameState,
        uid: Option<Uid>,
        evidence: Evidence,
    ) -> Self {
        Self { name, plural: None, incarnation, state, uid, evidence }
    }

    /// The same row, with the plural of its kind.
    #[must_use]
    pub fn with_plural(self, plural: Option<String>) -> Self {
        Self { plural: plural.or(self.plural), ..self }
    }

    fn turned(&self, state: NameState, evidence: Evidence) -> Self {
        Self { state, evidence, ..self.clone() }
    }

    /// An object with our proof of ownership has the name.
    fn with_present(&self, uid: &Uid, proof: &impl Fn(&str) -> Evidence) -> Vec<Self> {
        let seen = |incarnation, answer| {
            let uid = Some(uid.clone());
            Self::new(self.name.clone(), incarnation, NameState::Seen, uid, proof(answer))
        };
        match self.state {
            NameState::Abandoned => vec![],
            NameState::Intended | NameState::Foreign => {
                vec![seen(self.incarnation, "present and ours")]
            }
            NameState::Seen if self.uid.as_ref() == Some(uid) => vec![],
            NameState::Seen => vec![
                self.turned(NameState::Gone, proof("replaced by another uid")),
                seen(self.incarnation + 1, "present and ours, with a new uid"),
            ],
            NameState::Gone => vec![seen(self.incarnation + 1, "reappeared")],
        }
    }

    /// A foreign object has the name.
    fn displaced(&self, uid: &Uid, proof: &impl Fn(&str) -> Evidence) -> Vec<Self> {
        match self.state {
            NameState::Intended => {
                vec![self.turned(NameState::Foreign, proof("present and foreign"))]
            }
            NameState::Seen if self.uid.as_ref() != Some(uid) => {
                vec![self.turned(NameState::Gone, proof("replaced by another uid"))]
            }
            NameState::Seen | NameState::Gone | NameState::Foreign | NameState::Abandoned => vec![],
        }
    }
}

impl Evidence {
    /// Evidence from one authority.
    pub fn new(by: &str, answer: &str, at: Timestamp) -> Self {
        Self { by: by.to_owned(), answer: answer.to_owned(), at }
    }
}

/// What one authority answered about one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The queried name.
    pub name: Name,
    /// The plural of its kind, where the authority knows one.
    pub plural: Option<String>,
    pub answer: Answer,
    /// The authority that answered.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// What an authority answered about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An object has it.
    Present {
        /// Its uid.
        uid: Uid,
        /// Whether it carries our proof of ownership.
        ours: bool,
    },
    /// No object has it, by the right authority.
    Absent {
        /// No creator is left, so that a name which was only intended counts as gone.
        settled: bool,
    },
    /// No object has it yet, but a controller that may create it has announced the name.
    Announced,
    /// No answer that counts.
    Unknown(Unknown),
}

/// Why an answer does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unknown {
    /// No answer.
    Unreachable,
    /// We may not read it.
    Forbidden,
    /// The mass-deletion guard is tripped.
    GuardTripped,
    /// The authority is not the one that was pinned, or it lost its memory.
    ClusterReplaced,
}

/// How many settled rows that nothing needs any more a compacted name ledger keeps.
pub const SETTLED_KEPT: usize = 16;

/// All identity rows of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameLedger {
    rows: Vec<Row>,
}

impl NameLedger {
    /// A name ledger from stored rows.
    pub fn new(rows: impl IntoIterator<Item = Row>) -> Self {
        let mut name_ledger = Self::default();
        for row in rows {
            name_ledger.put(row);
        }
        name_ledger
    }

    /// Every row, oldest incarnation first.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The newest row of a name.
    pub fn latest(&self, name: &Name) -> Option<&Row> {
        self.rows.iter().filter(|row| row.name == *name).max_by_key(|row| row.incarnation)
    }

    /// The row of a name that an object of ours has.
    pub fn seen(&self, name: &Name) -> Option<&Row> {
        self.latest(name).filter(|row| row.state == NameState::Seen)
    }

    /// The oldest object of ours that still exists, among the given names.
    pub fn first_seen(&self, wanted: impl Fn(&Name) -> bool) -> Option<&Row> {
        self.rows
            .iter()
            .filter(|row| row.state == NameState::Seen && wanted(&row.name))
            .min_by_key(|row| (row.name.generation, row.incarnation))
    }

    /// Writes a row over the one with its key, or adds it.
    pub fn put(&mut self, row: Row) {
        let slot = self
            .rows
            .iter_mut()
            .find(|it| it.name == row.name && it.incarnation == row.incarnation);
        match slot {
            Some(slot) => *slot = row,
            None => self.rows.push(row),
        }
    }

    /// Whether every row is gone, foreign or abandoned.
    pub fn is_settled(&self) -> bool {
        self.rows.iter().all(|row| row.state.is_settled())
    }

    /// The rows that change when these sightings are recorded.
    pub fn absorb(&self, sightings: &[Sighting]) -> Vec<Row> {
        let mut after = self.clone();
        let mut changed = Vec::new();
        for sighting in sightings {
            for row in after.turn(sighting) {
                after.put(row.clone());
                changed
                    .retain(|it: &Row| (&it.name, it.incarnation) != (&row.name, row.incarnation));
                changed.push(row);
            }
        }
        changed
    }

    /// The name ledger after these rows were written.
    #[must_use]
    pub fn with(&self, rows: &[Row]) -> Self {
        let mut after = self.clone();
        for row in rows {
            after.put(row.clone());
        }
        after
    }

    /// Every open row abandoned, for the record of an abandoned resource.
    pub fn abandon(&self, by: &str, why: &str, at: Timestamp) -> Vec<Row> {
        self.rows
            .iter()
            .filter(|row| !row.state.is_settled())
            .map(|row| row.turned(NameState::Abandoned, Evidence::new(by, why, at)))
            .collect()
    }

    /// Every abandoned row reopened, for a record that is torn down after all.
    pub fn adopt(&self, by: &str, why: &str, at: Timestamp) -> Vec<Row> {
        let given_up = self.rows.iter().filter(|row| row.state == NameState::Abandoned);
        given_up
            .map(|row| {
                let state = if row.uid.is_some() { NameState::Seen } else { NameState::Intended };
                row.turned(state, Evidence::new(by, why, at))
            })
            .collect()
    }

    /// The name ledger without the rows that nothing needs any more: open rows, the newest row of
    /// each name that is meant, and the [`SETTLED_KEPT`] newest of all others stay.
    #[must_use]
    pub fn compacted(&self, is_meant: impl Fn(&Name) -> bool) -> Self {
        let needed = |row: &Row| {
            let newest = || self.latest(&row.name) == Some(row);
            !row.state.is_settled() || (is_meant(&row.name) && newest())
        };
        let ended = self.rows.iter().enumerate().filter(|(_, row)| !needed(row));
        let mut ended: Vec<_> = ended.map(|(place, row)| (row.evidence.at, place)).collect();
        ended.sort_unstable();
        ended.truncate(ended.len().saturating_sub(SETTLED_KEPT));
        let dropped: BTreeSet<usize> = ended.into_iter().map(|(_, place)| place).collect();
        let kept = self.rows.iter().enumerate().filter(|(place, _)| !dropped.contains(place));
        Self { rows: kept.map(|(_, row)| row.clone()).collect() }
    }

    fn turn(&self, sighting: &Sighting) -> Vec<Row> {
        let Some(row) = self.latest(&sighting.name) else {
            return first_sight(sighting);
        };
        let plural = sighting.plural.clone().or_else(|| row.plural.clone());
        let mut rows = row.after(sighting);
        let is_answered = !matches!(sighting.answer, Answer::Unknown(_));
        if rows.is_empty() && row.plural != plural && !row.state.is_settled() && is_answered {
            rows.push(row.clone());
        }
        rows.into_iter().map(|it| it.with_plural(plural.clone())).collect()
    }
}

impl Row {
    /// The rows that one answer changes.
    fn after(&self, sighting: &Sighting) -> Vec<Self> {
        let proof = |answer: &str| Evidence::new(&sighting.by, answer, sighting.at);
        match &sighting.answer {
            Answer::Unknown(_) | Answer::Announced => vec![],
            Answer::Absent { settled } => match self.state {
                NameState::Seen => vec![self.turned(NameState::Gone, proof("absent"))],
                NameState::Intended if *settled => {
                    let evidence = proof("absent, and no request can create it any more");
                    vec![self.turned(NameState::Gone, evidence)]
                }
                NameState::Foreign if !settled => {
                    vec![self.turned(NameState::Intended, proof("absent, the name is free again"))]
                }
                NameState::Intended
                | NameState::Foreign
                | NameState::Gone
                | NameState::Abandoned => {
                    vec![]
                }
            },
            Answer::Present { uid, ours: true } => self.with_present(uid, &proof),
            Answer::Present { uid, ours: false } => self.displaced(uid, &proof),
        }
    }
}

fn first_sight(sighting: &Sighting) -> Vec<Row> {
    let name = sighting.name.clone();
    match &sighting.answer {
        Answer::Present { uid, ours: true } => {
            let evidence = Evidence::new(&sighting.by, "present and ours", sighting.at);
            let row = Row::new(name, 1, NameState::Seen, Some(uid.clone()), evidence);
            vec![row.with_plural(sighting.plural.clone())]
        }
        Answer::Announced => {
            let evidence = Evidence::new(&sighting.by, "announced", sighting.at);
            let row = Row::new(name, 1, NameState::Intended, None, evidence);
            vec![row.with_plural(sighting.plural.clone())]
        }
        Answer::Present { ours: false, .. } | Answer::Absent { .. } | Answer::Unknown(_) => vec![],
    }
}

#[cfg(test)]
mod tests;
