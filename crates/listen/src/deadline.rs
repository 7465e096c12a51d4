//! How long a peer may take. Pure: time is an argument.

use std::time::Duration;

use tokio::time::Instant;

use crate::counts::CloseReason;

/// How long a peer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From the accept, or the first byte of a later request, to the end of its head.
    pub header: Duration,
    /// From the end of a head to the end of its body.
    pub body: Duration,
    /// Between an answer and the first byte of the next request.
    pub idle: Duration,
    /// The same after a request with a valid token.
    pub idle_authenticated: Duration,
    /// Without reading anything of an answer; without a token, until all of it is read.
    pub write: Duration,
}

/// What begins a request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Any byte after an answer.
    Http1,
    /// Bytes may belong to pings and windows: a head is known when it is complete.
    Http2,
}

/// What one connection is doing.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    protocol: Protocol,
    /// When the head began that is not complete yet.
    head_since: Option<Instant>,
    idle_since: Instant,
    /// Requests in their handlers.
    handling: usize,
    /// Of these, requests that wait for their bodies.
    reading: usize,
    /// Answers that are being sent.
    answering: usize,
    /// When the answer began that is being sent.
    answer_since: Instant,
    stalled_since: Option<Instant>,
    /// Whether a token was ever shown.
    authenticated: bool,
    /// Whether the last answered request had one.
    idle_authenticated: bool,
    body_late: bool,
}

impl Activity {
    /// A connection that was accepted now.
    pub(crate) fn accepted(now: Instant) -> Self {
        Self {
            protocol: Protocol::Http1,
            head_since: Some(now),
            idle_since: now,
            handling: 0,
            reading: 0,
            answering: 0,
            answer_since: now,
            stalled_since: None,
            authenticated: false,
            idle_authenticated: false,
            body_late: false,
        }
    }

    pub(crate) fn negotiated(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Bytes came in.
    pub(crate) fn received(&mut self, now: Instant) {
        if self.is_idle() && self.protocol == Protocol::Http1 && self.head_since.is_none() {
            self.head_since = Some(now);
        }
    }

    /// A head is complete: its handler begins.
    pub(crate) fn begin_request(&mut self) {
        self.head_since = None;
        self.handling += 1;
    }

    pub(crate) fn begin_wait_for_body(&mut self) {
        self.reading += 1;
    }

    pub(crate) fn end_wait_for_body(&mut self) {
        self.reading -= 1;
    }

    pub(crate) fn miss_body(&mut self) {
        self.body_late = true;
    }

    /// The handler answered.
    pub(crate) fn begin_answer(&mut self, now: Instant, authenticated: bool) {
        self.handling -= 1;
        if self.answering == 0 && !self.is_stalled() {
            self.answer_since = now;
        }
        self.answering += 1;
        self.authenticated |= authenticated;
        self.idle_authenticated = authenticated;
    }

    pub(crate) fn end_answer(&mut self, now: Instant) {
        self.answering -= 1;
        self.idle_since = now;
    }

    /// The handler was dropped without an answer.
    pub(crate) fn abandon_request(&mut self, now: Instant) {
        self.handling -= 1;
        self.idle_since = now;
    }

    pub(crate) fn stall(&mut self, now: Instant) {
        self.stalled_since.get_or_insert(now);
    }

    /// Bytes went out.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.stalled_since = None;
        if self.is_idle() {
            self.idle_since = now;
        }
    }

    /// Whether no request is being handled or answered, and no answer is left to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.handling == 0 && self.answering == 0 && !self.is_stalled()
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled_since.is_some()
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Whether it is the peer's turn: to send a head or a body, or to read an answer.
    pub(crate) fn waits(&self) -> bool {
        self.handling == self.reading && (self.answering == 0 || self.is_stalled())
    }

    /// Until when the peer must do what, if it has to do anything.
    pub(crate) fn deadline(&self, deadlines: &Deadlines) -> Option<(Instant, CloseReason)> {
        let head = self.head_since.map(|it| (it + deadlines.header, CloseReason::Header));
        let rests = self.head_since.is_none() && self.is_idle();
        let idle = rests.then(|| (self.idle_since + self.idle(deadlines), CloseReason::Idle));
        let stalled = self.stalled_since.map(|it| (it + deadlines.write, CloseReason::Write));
        // Without a token no answer is an endless stream, and none is read byte by byte.
        let limited = !self.authenticated && (self.answering > 0 || self.is_stalled());
        let answer = limited.then(|| (self.answer_since + deadlines.write, CloseReason::Write));
        [head, idle, stalled, answer].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Why a connection that ended by itself did so.
    pub(crate) fn ended(&self) -> CloseReason {
        if self.body_late { CloseReason::Body } else { CloseReason::Ended }
    }

    fn idle(&self, deadlines: &Deadlines) -> Duration {
        if self.idle_authenticated { deadlines.idle_authenticated } else { deadlines.idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINES: Deadlines = Deadlines {
        header: Duration::from_secs(10),
        body: Duration::from_secs(10),
        idle: Duration::from_secs(12),
        idle_authenticated: Duration::from_secs(75),
        write: Duration::from_secs(30),
    };

    /// Seconds after the accept, and the reason.
    fn due(activity: &Activity, accepted: Instant) -> Option<(u64, CloseReason)> {
        activity.deadline(&DEADLINES).map(|(at, why)| ((at - accepted).as_secs(), why))
    }

    // Requirement: CN-1
    #[test]
    fn a_head_is_due_from_the_accept_and_later_from_its_first_byte() {
        let accepted = Instant::now();
        let at = |secs| accepted + Duration::from_secs(secs);
        let mut it = Activity::accepted(accepted);
        assert_eq!(due(&it, accepted), Some((10, CloseReason::Header)));
        it.received(at(9));
        assert_eq!(due(&it, accepted), Some((10, CloseReason::Header)), "bytes gain no time");
        it.begin_request();
        assert_eq!(due(&it, accepted), None, "the server's turn");
        it.begin_answer(at(20), false);
        it.end_answer(at(20));
        assert_eq!(due(&it, accepted), Some((32, CloseReason::Idle)));
        it.received(at(25));
        it.received(at(30));
        assert_eq!(due(&it, accepted), Some((35, CloseReason::Header)));
    }

    // Requirement: CN-2
    #[test]
    fn a_token_prolongs_the_time_between_requests_only() {
        let accepted = Instant::now();
        let at = |secs| accepted + Duration::from_secs(secs);
        let mut it = Activity::accepted(accepted);
        it.begin_request();
        it.begin_answer(at(1), true);
        it.end_answer(at(1));
        assert_eq!(due(&it, accepted), Some((76, CloseReason::Idle)));
        it.received(at(60));
        assert_eq!(due(&it, accepted), Some((70, CloseReason::Header)));
        it.begin_request();
        it.begin_answer(at(61), false);
        it.end_answer(at(61));
        assert_eq!(due(&it, accepted), Some((73, CloseReason::Idle)), "the last had no token");
        assert!(it.is_authenticated());
    }

    // Requirement: CN-3
    #[test]
    fn a_stream_with_a_token_ends_only_if_it_is_not_read() {
        let accepted = Instant::now();
        let at = |secs| accepted + Duration::from_secs(secs);
        let mut it = Activity::accepted(accepted);
        it.begin_request();
        it.begin_answer(at(1), true);
        assert_eq!(due(&it, accepted), None);
        it.stall(at(100));
        it.stall(at(110));
        assert_eq!(due(&it, accepted), Some((130, CloseReason::Write)));
        it.sent(at(120));
        assert_eq!(due(&it, accepted), None);
        let mut public = Activity::accepted(accepted);
        public.begin_request();
        public.begin_answer(at(1), false);
        assert_eq!(due(&public, accepted), Some((31, CloseReason::Write)));
        public.end_answer(at(5));
        public.stall(at(5));
        public.sent(at(20));
        public.stall(at(20));
        assert_eq!(due(&public, accepted), Some((31, CloseReason::Write)), "bytes gain no time");
        public.sent(at(25));
        assert_eq!(due(&public, accepted), Some((37, CloseReason::Idle)));
    }

    #[test]
    fn bytes_of_http2_begin_no_head() {
        let accepted = Instant::now();
        let mut it = Activity::accepted(accepted);
        it.negotiated(Protocol::Http2);
        it.begin_request();
        it.begin_answer(accepted, true);
        it.end_answer(accepted);
        it.received(accepted + Duration::from_secs(30));
        assert_eq!(due(&it, accepted), Some((75, CloseReason::Idle)));
    }

    // Requirement: CN-4
    #[test]
    fn a_connection_waits_unless_the_server_has_to_act() {
        let accepted = Instant::now();
        let mut it = Activity::accepted(accepted);
        assert!(it.waits(), "for a head");
        it.begin_request();
        assert!(!it.waits());
        it.begin_wait_for_body();
        assert!(it.waits(), "for a body");
        it.end_wait_for_body();
        assert!(!it.waits());
        it.begin_answer(accepted, false);
        assert!(!it.waits());
        it.stall(accepted);
        assert!(it.waits(), "for the peer to read");
        it.sent(accepted);
        it.end_answer(accepted);
        assert!(it.waits(), "for the next head");
    }
}
