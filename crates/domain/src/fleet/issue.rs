//! Sequences: recorded before they are used, and compared with every snapshot.
//!
//! ```text
//!   snapshot begins ── stamp ───────────────────────────▶ snapshot ends: believed if stamp ≥ token
//!        reserve ── token recorded ── verb sent ── settled
//! ```
//!
//! A snapshot that began before a verb was settled may show the machine as it was before the verb.
//! So the stamp of a snapshot is not simply the highest sequence there is, but the highest one
//! below which nothing is outstanding. A crossing, and the first restriction of a command that was
//! accepted, take a token, too, settled when they are committed: a slow list that began before a
//! snapshot which was already believed does not revert the machine.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A place in the order of all verbs of one shard: a newer epoch begins a new count.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Token {
    /// Raised by every acquisition of the shard's lease.
    pub epoch: u64,
    /// Raised by every verb, every crossing and every command that was seen to be accepted.
    pub sequence: u64,
}

impl Token {
    /// The token after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self { epoch: self.epoch, sequence: self.sequence + 1 }
    }
}

/// Gives out the sequences of one epoch and stamps snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    last: Token,
    outstanding: BTreeSet<u64>,
}

impl Issuer {
    /// The issuer of a new epoch.
    pub const fn new(epoch: u64) -> Self {
        Self { last: Token { epoch, sequence: 0 }, outstanding: BTreeSet::new() }
    }

    pub const fn epoch(&self) -> u64 {
        self.last.epoch
    }

    /// A token that was never used. It is outstanding until it is settled.
    pub fn reserve(&mut self) -> Token {
        self.last = self.last.next();
        self.outstanding.insert(self.last.sequence);
        self.last
    }

    /// The verb with this token was answered, or will never be sent.
    pub fn settle(&mut self, token: Token) {
        if token.epoch == self.last.epoch {
            self.outstanding.remove(&token.sequence);
        }
    }

    /// The stamp of a snapshot of many machines that begins now.
    pub fn stamp(&self) -> Token {
        match self.outstanding.first() {
            None => self.last,
            Some(oldest) => Token { sequence: oldest - 1, ..self.last },
        }
    }

    /// The stamp of a snapshot of the one machine with this last token: no other verb concerns it.
    pub fn stamp_for(&self, token: Token) -> Token {
        if token.epoch == self.last.epoch && self.outstanding.contains(&token.sequence) {
            Token { sequence: token.sequence - 1, ..token }
        } else {
            self.last
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Requirement: F-11
    #[test]
    fn a_newer_epoch_is_newer_than_any_sequence() {
        let old = Token { epoch: 1, sequence: u64::MAX };
        assert!(old < Issuer::new(2).reserve());
        assert!(old < Issuer::new(2).stamp(), "a snapshot of the new epoch counts for old verbs");
    }

    #[test]
    fn a_settled_token_of_another_epoch_settles_nothing() {
        let mut issuer = Issuer::new(2);
        let token = issuer.reserve();
        issuer.settle(Token { epoch: 1, ..token });
        assert!(issuer.stamp() < token);
        issuer.settle(token);
        assert_eq!(issuer.stamp(), token);
    }

    // Requirement: F-9
    #[test]
    fn a_snapshot_of_one_machine_waits_for_its_own_verb_alone() {
        let mut issuer = Issuer::new(1);
        let (one, other) = (issuer.reserve(), issuer.reserve());
        assert!(issuer.stamp_for(one) < one);
        issuer.settle(other);
        assert!(issuer.stamp_for(other) >= other, "though the first is outstanding");
        assert!(issuer.stamp() < one);
        assert!(issuer.stamp_for(Token::default()) >= other);
    }

    proptest! {
        /// Steps: reserve, settle the n-th outstanding, begin a snapshot.
        // Requirement: F-9
        #[test]
        fn no_snapshot_is_stamped_with_a_verb_unsettled_at_its_start(
            steps in prop::collection::vec((0..3_u8, any::<prop::sample::Index>()), 1..60),
        ) {
            let mut issuer = Issuer::new(3);
            let mut open: Vec<Token> = vec![];
            let mut settled: Vec<Token> = vec![];
            for (step, index) in steps {
                match step {
                    0 => open.push(issuer.reserve()),
                    1 if !open.is_empty() => {
                        let token = open.remove(index.index(open.len()));
                        issuer.settle(token);
                        settled.push(token);
                    }
                    _ => {
                        let stamp = issuer.stamp();
                        prop_assert!(open.iter().all(|it| *it > stamp));
                        if open.is_empty() {
                            prop_assert!(settled.iter().all(|it| *it <= stamp));
                        }
                    }
                }
            }
        }
    }
}
