//! Whose step runs in this process: a wake-up of such a life needs no write.
//!
//! ```text
//!   begin ──▶ look ──▶ a wake-up is noted ──▶ end says so ──▶ the life looks again, still leased
//!                        └ or waited for       └ from here on a wake-up is written
//! ```
//!
//! **Invariants**
//! - A wake-up is noted only while a driver has yet to give its lease back. A driver that is cut
//!   off leaves the note to whoever postpones its life; a process that dies leaves its lease.
//! - What was noted before the last look began is seen by it. Whoever looked and was overtaken
//!   wakes the life, because whoever overtook it may have looked before the change.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
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
    /// The wake-ups that were written and noted here as well.
    written: u64,
    bell: Arc<Notify>,
}

impl Turns {
    /// Begins a turn, during which wake-ups are noted.
    pub(crate) fn begin(&self, life: Life, claim: Claim) -> Turn<'_> {
        let looked = AtomicU64::new(claim.wake_seq);
        let turn = Turn { turns: self, life, fence: claim.fence, looked };
        let mut inner = self.inner();
        let (fence, written, bell) = (turn.fence, claim.wake_seq, Arc::default());
        inner.running.insert(life, Running { fence, woken: false, written, bell });
        // The look that follows sees it.
        inner.left.remove(&life);
        drop(inner);
        turn
    }

    /// Notes a wake-up with whoever steps the life; `false` if it must be written.
    pub(crate) fn note(&self, life: Life) -> bool {
        self.note_written(life, 0)
    }

    /// Notes a wake-up that was written, as the so manieth of the life, with whoever steps it;
    /// `false` if nobody does here.
    pub(crate) fn note_written(&self, life: Life, wake_seq: u64) -> bool {
        let mut inner = self.inner();
        let Some(turn) = inner.running.get_mut(&life) else { return false };
        turn.woken = true;
        // What came in between was not noted, and a look with this record may not see it.
        if wake_seq == turn.written + 1 {
            turn.written = wake_seq;
        }
        turn.bell.notify_one();
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
    /// The written wake-ups that the last look sees.
    looked: AtomicU64,
}

impl Turn<'_> {
    /// A look begins: whatever was noted is seen by it.
    pub(crate) fn look(&self) {
        if let Some(own) = self.turns.inner().own(self) {
            own.woken = false;
            self.looked.store(own.written, Ordering::Relaxed);
        }
    }

    /// Waits so long for a wake-up, unless one was noted.
    pub(crate) async fn linger(&self, span: Duration) {
        // Whether somebody came is asked when the step ends.
        let _ = timeout(span, self.woken()).await;
    }

    /// Ends when a wake-up is noted that the look did not see.
    async fn woken(&self) {
        loop {
            let bell = match self.turns.inner().own(self) {
                Some(own) if !own.woken => Arc::clone(&own.bell),
                Some(_) | None => return,
            };
            // It may have rung for an earlier look.
            bell.notified().await;
        }
    }

    /// How many written wake-ups the last look saw.
    pub(crate) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    /// How many the next look sees.
    pub(crate) fn written(&self) -> u64 {
        self.turns.inner().own(self).map_or(0, |it| it.written)
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

    /// Red by: a wait that goes on although somebody came, or ends for whom the look has seen.
    // Requirement: W-20
    #[tokio::test(start_paused = true)]
    async fn whoever_lingers_waits_for_the_next_wake_up_and_no_longer() {
        let (turns, life) = (Turns::default(), Life::Resource(ResourceId::from_uuid(Uuid::nil())));
        let (less, span) = (Duration::from_millis(19), Duration::from_millis(20));
        let turn = turns.begin(life, claim(1));
        assert!(turns.note(life));
        turn.look();
        assert!(timeout(less, turn.linger(span)).await.is_err(), "the look has seen that one");
        turn.linger(span).await;
        assert!(!turn.end(), "and nobody came");

        let turn = turns.begin(life, claim(2));
        turn.look();
        let comes = async {
            tokio::time::sleep(span / 2).await;
            assert!(turns.note_written(life, 1) && turns.note_written(life, 3));
        };
        let (waited, ()) = tokio::join!(timeout(less, turn.linger(span)), comes);
        assert!(waited.is_ok(), "it waits no longer");
        assert_eq!((turn.looked(), turn.written()), (0, 1), "the second one was not noted");
        assert!(turn.end());
        assert!(!turns.note_written(life, 4), "from here on it is written and no more");
    }
}
