//! A life that this process has just woken need not be looked for: the write that wakes it takes
//! its lease as well, and hands it to whoever steps lives here.
//!
//! ```text
//!   a write that wakes ──▶ a seat is free: woken and leased in one transaction ──▶ handed over
//!                      └─▶ none is: woken, and claimed as anybody is
//! ```
//!
//! **Invariants**
//! - Whoever is handed over has a seat until its step ends, so nobody is handed too many.
//! - Half of the seats are for those who are due, and where more were due than there were seats
//!   nobody is handed over: those who wait come first.
//! - Nobody is handed over whose write failed. A lease whose taker is gone is given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;

use crate::port::Leased;

/// Who takes leases over, if somebody does.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    taker: Mutex<Option<Taker>>,
}

#[derive(Clone, Debug)]
struct Taker {
    seats: Arc<Semaphore>,
    /// How many seats are for others.
    kept: usize,
    crowded: Arc<AtomicBool>,
    clock: Clock,
    sender: mpsc::UnboundedSender<Handed>,
}

/// The clock of whoever takes leases over.
pub type Clock = fn() -> Instant;

/// A life that was leased by the write that woke it.
#[derive(Debug)]
pub struct Handed {
    /// The life.
    pub leased: Leased,
    /// A moment before its lease began.
    pub since: Instant,
    /// Its seat, until it is dropped.
    pub seat: OwnedSemaphorePermit,
}

/// What is handed over to the one who asked for it.
#[derive(Debug)]
pub struct Handing {
    crowded: Arc<AtomicBool>,
    receiver: mpsc::UnboundedReceiver<Handed>,
}

impl Handing {
    /// The next who is handed over.
    pub async fn next(&mut self) -> Option<Handed> {
        self.receiver.recv().await
    }

    /// Whoever was handed over and not taken yet; nobody is from now on.
    pub fn close(&mut self) -> Vec<Handed> {
        self.receiver.close();
        std::iter::from_fn(|| self.receiver.try_recv().ok()).collect()
    }

    /// Says whether more are due than there are seats.
    pub fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Relaxed);
    }
}

/// A seat that is kept for one who is about to be woken.
#[derive(Debug)]
pub(crate) struct Seat {
    since: Instant,
    permit: OwnedSemaphorePermit,
    sender: mpsc::UnboundedSender<Handed>,
}

impl Seat {
    /// Hands a life over, once its lease is written; `false` if nobody takes it any more.
    pub(crate) fn hand(self, leased: Leased) -> bool {
        self.sender.send(Handed { leased, since: self.since, seat: self.permit }).is_ok()
    }
}

impl Handover {
    /// From now on lives are handed to the caller while there are seats.
    pub(crate) fn begin(&self, seats: Arc<Semaphore>, clock: Clock) -> Handing {
        let (sender, receiver) = mpsc::unbounded_channel();
        let crowded = Arc::<AtomicBool>::default();
        let kept = seats.available_permits() / 2;
        let taker = Taker { seats, kept, crowded: Arc::clone(&crowded), clock, sender };
        *self.taker.lock().unwrap_or_else(PoisonError::into_inner) = Some(taker);
        Handing { crowded, receiver }
    }

    /// Whether more are due than there are seats, as far as somebody takes leases over.
    pub(crate) fn is_crowded(&self) -> bool {
        self.taker().is_none_or(|it| it.crowded.load(Ordering::Relaxed))
    }

    /// A seat for one who is about to be woken, if there is one.
    pub(crate) fn seat(&self) -> Option<Seat> {
        let taker = self.taker()?;
        if taker.crowded.load(Ordering::Relaxed) || taker.sender.is_closed() {
            return None;
        }
        if taker.seats.available_permits() <= taker.kept {
            return None;
        }
        let permit = taker.seats.try_acquire_owned().ok()?;
        Some(Seat { since: (taker.clock)(), permit, sender: taker.sender })
    }

    fn taker(&self) -> Option<Taker> {
        self.taker.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
