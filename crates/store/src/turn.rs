//! Whose step runs in this process: a wake-up of such a life needs no write.
//!
//! ```text
//!   begin ──▶ look ──▶ a wake-up is noted ──▶ end says so ──▶ the life looks again, still leased
//!                                              └ from here on a wake-up is written
//! ```
//!
//! **Invariants**
//! - A wake-up is noted only while the lease runs and its driver has yet to give it back. A driver
//!   that dies leaves a lease behind, and whoever leases the life next looks as well.
//! - What was noted before the last look began is seen by it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use usher_kernel::Fence;
use usher_kernel::schedule::Claim;
use uuid::Uuid;

use crate::life::Life;

/// The steps that run in this process.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    running: Mutex<HashMap<Uuid, Running>>,
}

#[derive(Debug)]
struct Running {
    fence: Fence,
    woken: bool,
}

impl Turns {
    /// Begins a turn, during which wake-ups are noted.
    pub(crate) fn begin(&self, life: Life, claim: Claim) -> Turn<'_> {
        let turn = Turn { turns: self, id: life.id(), fence: claim.fence };
        self.running().insert(turn.id, Running { fence: turn.fence, woken: false });
        turn
    }

    /// Notes a wake-up with whoever steps the life; `false` if it must be written.
    pub(crate) fn note(&self, id: Uuid) -> bool {
        let mut running = self.running();
        let Some(turn) = running.get_mut(&id) else { return false };
        turn.woken = true;
        true
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Uuid, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One step, until it ends or is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    id: Uuid,
    fence: Fence,
}

impl Turn<'_> {
    /// A look begins: whatever was noted is seen by it.
    pub(crate) fn look(&self) {
        if let Some(own) = self.turns.running().get_mut(&self.id).filter(|it| self.owns(it)) {
            own.woken = false;
        }
    }

    /// From now on wake-ups are written; whether one was noted since the look began.
    pub(crate) fn end(&self) -> bool {
        let mut running = self.turns.running();
        let Some(own) = running.get(&self.id).filter(|it| self.owns(it)) else { return false };
        let woken = own.woken;
        running.remove(&self.id);
        woken
    }

    fn owns(&self, running: &Running) -> bool {
        running.fence == self.fence
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
