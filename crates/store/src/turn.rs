//! Whose step runs in this process: a wake-up of such a life needs no write.
//!
//! ```text
//!   begin ──▶ look ──▶ a wake-up is noted ──▶ end says so ──▶ the life looks again, still leased
//!                                              └ from here on a wake-up is written
//! ```
//!
//! **Invariants**
//! - A wake-up is noted only while a driver has yet to give its lease back. A driver that is cut
//!   off leaves the note to whoever postpones its life; a process that dies leaves its lease.
//! - What was noted before the last look began is seen by it. Whoever looked and was overtaken
//!   wakes the life, because whoever overtook it may have looked before the change.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use usher_kernel::Fence;
use usher_kernel::schedule::Claim;

use crate::life::Life;

/// The steps that run in this process.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    running: HashMap<Life, Running>,
    /// Whose driver was cut off with a note.
    left: HashSet<Life>,
}

#[derive(Debug)]
struct Running {
    fence: Fence,
    woken: bool,
}

impl Turns {
    /// Begins a turn, during which wake-ups are noted.
    pub(crate) fn begin(&self, life: Life, claim: Claim) -> Turn<'_> {
        let turn = Turn { turns: self, life, fence: claim.fence };
        let mut inner = self.inner();
        inner.running.insert(life, Running { fence: turn.fence, woken: false });
        // The look that follows sees it.
        inner.left.remove(&life);
        drop(inner);
        turn
    }

    /// Notes a wake-up with whoever steps the life; `false` if it must be written.
    pub(crate) fn note(&self, life: Life) -> bool {
        let mut inner = self.inner();
        let Some(turn) = inner.running.get_mut(&life) else { return false };
        turn.woken = true;
        true
    }

    /// Whether a driver of the life was cut off with a note; told once.
    pub(crate) fn take_left(&self, life: Life) -> bool {
        self.inner().left.remove(&life)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn own(&mut self, turn: &Turn<'_>) -> Option<&mut Running> {
        self.running.get_mut(&turn.life).filter(|it| it.fence == turn.fence)
    }

    /// Ends a turn; whether a wake-up was noted since its look began.
    fn end(&mut self, turn: &Turn<'_>) -> bool {
        let Some(woken) = self.own(turn).map(|it| it.woken) else { return false };
        self.running.remove(&turn.life);
        woken
    }
}

/// One step, until it ends or is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    life: Life,
    fence: Fence,
}

impl Turn<'_> {
    /// A look begins: whatever was noted is seen by it.
    pub(crate) fn look(&self) {
        if let Some(own) = self.turns.inner().own(self) {
            own.woken = false;
        }
    }

    /// From now on wake-ups are written; whether one was noted since the look began.
    pub(crate) fn end(&self) -> bool {
        self.turns.inner().end(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut inner = self.turns.inner();
        if inner.end(self) {
            inner.left.insert(self.life);
        }
    }
}

#[cfg(test)]
mod tests {
    use usher_domain::object::id::ResourceId;
    use usher_kernel::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn claim(fence: u64) -> Claim {
        Claim { fence: Fence(fence), wake_seq: 0, attempt: 1, until: Timestamp::ZERO }
    }

    #[test]
    fn what_is_left_is_told_once_unless_a_new_turn_looks() {
        let (turns, life) = (Turns::default(), Life::Resource(ResourceId::from_uuid(Uuid::nil())));
        let cut_off = |fence| {
            let turn = turns.begin(life, claim(fence));
            turn.look();
            assert!(turns.note(life));
            drop(turn);
        };
        assert!(!turns.note(life), "nobody steps it");
        cut_off(1);
        assert!(turns.take_left(life) && !turns.take_left(life));
        cut_off(2);
        drop(turns.begin(life, claim(3)));
        assert!(!turns.take_left(life), "a life that went on has looked since");
    }
}
