//! The term of a lease holder: until when it may send, and what its requests carry.
//!
//! ```text
//!  renewal is sent                        last send            requests have ended      lease ends
//!        │◀────────────── send ──────────────▶│◀──── request ────▶│                        │
//!        │◀──────────────────────────────── lease ────────────────────────────────────────▶│
//! ```
//!
//! **Invariants**
//! - What a term permits is counted from the moment before its last renewal was sent.
//! - The permission is asked for before each mutating request, by a clock that counts suspension.
//! - A term that ended never begins again.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use usher_kernel::{Timestamp, Trouble};

use super::clock::Clock;

/// A term of a lease, as everything that sends in it shares it.
#[derive(Clone, Debug)]
pub struct Term(Arc<Shared>);

/// The side of a term that renews and ends it. Dropping it ends the term.
#[derive(Debug)]
pub struct TermControl {
    state: Arc<State>,
    ended: watch::Sender<bool>,
    users: mpsc::Receiver<()>,
}

/// How a term begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Greater than that of every term before.
    pub epoch: u64,
    /// When the request was sent that acquired the lease, by the clock's `elapsed`.
    pub sent: Duration,
    /// Whether each request of the term before was answered.
    pub is_clean: bool,
}

#[derive(Debug)]
struct Shared {
    epoch: u64,
    began: Timestamp,
    began_at: Duration,
    is_clean: bool,
    state: Arc<State>,
    ended: watch::Receiver<bool>,
    /// The last one to be dropped tells the other side.
    _user: mpsc::Sender<()>,
}

#[derive(Debug)]
struct State {
    clock: Clock,
    /// How long after a renewal a request may be sent, and how long it may take.
    bounds: (Duration, Duration),
    /// When the last renewal was sent, in microseconds of the clock.
    renewed: AtomicU64,
    has_ended: AtomicBool,
    /// When the last step ended whose request may still arrive, in microseconds of the clock.
    unanswered: AtomicU64,
}

impl Term {
    /// Begins a term in which requests may be sent for `send` after each renewal, and take as long
    /// as `request`.
    pub fn begin(
        clock: Clock,
        (send, request): (Duration, Duration),
        beginning: Beginning,
    ) -> (Self, TermControl) {
        let Beginning { epoch, sent, is_clean } = beginning;
        let (began, began_at) = (clock.wall(), clock.elapsed());
        let state = Arc::new(State {
            clock,
            bounds: (send, request),
            renewed: AtomicU64::new(micros(sent)),
            has_ended: AtomicBool::new(false),
            unanswered: AtomicU64::new(0),
        });
        let (ended, ends) = watch::channel(false);
        let (user, users) = mpsc::channel(1);
        let control = TermControl { state: Arc::clone(&state), ended, users };
        let shared = Shared { epoch, began, began_at, is_clean, state, ended: ends, _user: user };
        (Self(Arc::new(shared)), control)
    }

    /// Greater than that of every term before; it is written into what is changed.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// The time by the clock of the lease: it never goes back within a term.
    pub fn now(&self) -> Timestamp {
        let elapsed = self.0.state.clock.elapsed().saturating_sub(self.0.began_at);
        self.0.began.after(elapsed)
    }

    /// Until when requests of the term before may have been sent that were not answered; `None` if
    /// it ended cleanly.
    pub fn heard_until(&self) -> Option<Timestamp> {
        (!self.0.is_clean).then_some(self.0.began)
    }

    /// Asked right before each mutating request: whether it may be sent. The request has to end
    /// within its bound.
    pub fn may_send(&self) -> Result<(), Trouble> {
        self.0.state.may_send()
    }

    /// Sends a request if the term permits it. If the process was suspended meanwhile, the request
    /// is dropped instead of continued.
    pub async fn send<T>(&self, request: impl Future<Output = T>) -> Result<T, Trouble> {
        let state = &self.0.state;
        // Read before the check: a suspension after it counts.
        let sent = state.clock.elapsed();
        self.may_send()?;
        let mut under_way = UnderWay { term: self, is_answered: false };
        let (mut request, mut ended) = (pin!(request), pin!(self.ended()));
        let checked = std::future::poll_fn(|context| {
            let is_late = state.clock.elapsed().saturating_sub(sent) > state.bounds.1;
            if is_late || state.has_ended() || ended.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            request.as_mut().poll(context).map(Some)
        });
        let answered = checked.await;
        under_way.is_answered = answered.is_some();
        answered.ok_or_else(|| refused("a request was cut off"))
    }

    /// Notes that a request was sent whose answer is not known.
    pub fn note_unanswered(&self) {
        let state = &self.0.state;
        state.unanswered.fetch_max(micros(state.clock.elapsed()).max(1), Ordering::AcqRel);
    }

    /// Resolves when the term has ended: what runs in it has to be cancelled.
    pub async fn ended(&self) {
        let mut ended = self.0.ended.clone();
        // The other side is gone: it has ended.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    pub fn has_ended(&self) -> bool {
        self.0.state.has_ended()
    }
}

/// A request that is sent. If it is dropped before its answer, also with the future that sends it,
/// it may still arrive.
struct UnderWay<'a> {
    term: &'a Term,
    is_answered: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.term.note_unanswered();
        }
    }
}

impl TermControl {
    /// Prolongs the term by a renewal that was sent at this time of the clock and succeeded. A term
    /// that has ended stays ended.
    pub fn renew(&self, sent: Duration) {
        self.state.renewed.fetch_max(micros(sent), Ordering::AcqRel);
    }

    /// Ends the term: nothing is sent in it any more.
    pub fn end(&self) {
        self.state.has_ended.store(true, Ordering::Release);
        self.ended.send_replace(true);
    }

    /// Resolves when nothing uses the term any more, and each of its requests was answered or is
    /// too old to arrive.
    pub async fn settled(&mut self) {
        // Nothing is ever sent: it ends when the last sender is dropped.
        let _ = self.users.recv().await;
        let unanswered = Duration::from_micros(self.state.unanswered.load(Ordering::Acquire));
        if unanswered.is_zero() {
            return;
        }
        let arrived = unanswered.saturating_add(self.state.bounds.1);
        while let Some(left) = arrived.checked_sub(self.state.clock.elapsed()) {
            tokio::time::sleep(left.max(Duration::from_millis(1))).await;
        }
    }
}

impl Drop for TermControl {
    fn drop(&mut self) {
        self.end();
    }
}

impl State {
    fn may_send(&self) -> Result<(), Trouble> {
        if self.has_ended() {
            return Err(refused("the term has ended"));
        }
        let renewed = Duration::from_micros(self.renewed.load(Ordering::Acquire));
        if self.clock.elapsed().saturating_sub(renewed) > self.bounds.0 {
            return Err(refused("the lease was not renewed in time"));
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

fn refused(why: &str) -> Trouble {
    Trouble::unavailable(format!("the Lease of this process: {why}"))
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
