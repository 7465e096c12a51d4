//! Fencing: the highest token of each shard for each machine.
//!
//! The marks of our machines are kept with their records. Callers may name any other machine, so
//! the marks of foreign machines are bounded: the least recently raised one is evicted.

use std::collections::{BTreeMap, HashMap};

use super::entry::Mark;

/// Marks per machine; the least recently raised one is evicted.
const SHARDS_MAX: usize = 256;

/// A fencing token: shard, epoch and sequence number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// The shard.
    pub shard: String,
    /// The epoch of the shard.
    pub epoch: i64,
    /// The sequence number in that epoch.
    pub sequence: i64,
}

impl Token {
    /// Whether it is the zero token, which always passes the fence.
    pub const fn is_zero(&self) -> bool {
        self.shard.is_empty() && self.epoch == 0 && self.sequence == 0
    }
}

/// The marks of one machine, the most recently raised last.
#[derive(Debug, Default)]
pub(super) struct Marks {
    raised: Vec<Token>,
}

impl Marks {
    /// Whether a token is newer than its shard's mark.
    pub(super) fn admits(&self, token: &Token) -> bool {
        let known = self.raised.iter().find(|it| it.shard == token.shard);
        known.is_none_or(|it| (token.epoch, token.sequence) > (it.epoch, it.sequence))
    }

    pub(super) fn raise(&mut self, token: Token) {
        self.raised.retain(|it| it.shard != token.shard);
        if self.raised.len() == SHARDS_MAX {
            self.raised.remove(0);
        }
        self.raised.push(token);
    }

    pub(super) fn of_machine(&self, machine: &str) -> impl Iterator<Item = Mark> {
        self.raised.iter().map(|it| mark(machine, it))
    }
}

/// Marks of machines that are not ours.
#[derive(Debug)]
pub(super) struct ForeignMarks {
    most: usize,
    turn: u64,
    machines: HashMap<String, (u64, Marks)>,
    by_turn: BTreeMap<u64, String>,
}

impl ForeignMarks {
    pub(super) fn new(most: usize) -> Self {
        Self { most, turn: 0, machines: HashMap::new(), by_turn: BTreeMap::new() }
    }

    pub(super) fn admits(&self, machine: &str, token: &Token) -> bool {
        self.machines.get(machine).is_none_or(|(_, marks)| marks.admits(token))
    }

    pub(super) fn raise(&mut self, machine: &str, token: Token) {
        self.turn += 1;
        let turn = self.turn;
        let (seen, marks) = self.machines.entry(machine.to_owned()).or_default();
        self.by_turn.remove(&std::mem::replace(seen, turn));
        marks.raise(token);
        self.by_turn.insert(turn, machine.to_owned());
        if self.machines.len() > self.most
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.machines.remove(&oldest);
        }
    }

    /// Removes and returns the marks of a machine that becomes ours.
    pub(super) fn take(&mut self, machine: &str) -> Marks {
        let Some((turn, marks)) = self.machines.remove(machine) else { return Marks::default() };
        self.by_turn.remove(&turn);
        marks
    }

    /// Every mark, the most recently raised last.
    pub(super) fn marks(&self) -> impl Iterator<Item = Mark> {
        let machines = self.by_turn.values();
        machines.flat_map(|id| {
            self.machines.get(id).map(|(_, it)| it.of_machine(id)).into_iter().flatten()
        })
    }
}

fn mark(machine: &str, token: &Token) -> Mark {
    Mark {
        shard: token.shard.clone(),
        machine: machine.to_owned(),
        epoch: token.epoch,
        sequence: token.sequence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(shard: &str, epoch: i64, sequence: i64) -> Token {
        Token { shard: shard.to_owned(), epoch, sequence }
    }

    #[test]
    fn tokens_are_ordered_by_epoch_then_by_sequence() {
        let mut marks = Marks::default();
        marks.raise(token("a", 2, 5));
        for (epoch, sequence, passes) in
            [(2, 5, false), (2, 4, false), (1, 9, false), (2, 6, true), (3, 0, true), (3, -9, true)]
        {
            assert_eq!(marks.admits(&token("a", epoch, sequence)), passes, "{epoch} {sequence}");
        }
        assert!(marks.admits(&token("b", 0, 1)), "another shard has its own mark");
    }

    // Requirement: PM-6
    #[test]
    fn marks_of_foreign_machines_are_bounded_and_the_oldest_is_evicted() {
        let mut foreign_marks = ForeignMarks::new(2);
        for machine in ["x", "y", "x", "z"] {
            foreign_marks.raise(machine, token("a", 1, 1));
        }
        let kept: Vec<String> = foreign_marks.marks().map(|it| it.machine).collect();
        assert_eq!(kept, ["x", "z"]);
        assert!(!foreign_marks.admits("x", &token("a", 1, 1)));
        assert!(foreign_marks.admits("y", &token("a", 1, 1)), "it was evicted");
    }

    // Requirement: PM-6
    #[test]
    fn shards_of_one_machine_are_bounded() {
        let mut marks = Marks::default();
        for shard in 0..=SHARDS_MAX {
            marks.raise(token(&shard.to_string(), 1, 1));
        }
        assert_eq!(marks.raised.len(), SHARDS_MAX);
        assert!(marks.admits(&token("0", 1, 1)));
        assert!(!marks.admits(&token("1", 1, 1)));
    }
}
