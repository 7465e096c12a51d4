//! Bodies: a request's with its deadline, and an answer's that says when it ended.

use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::deadline::Activity;
use crate::handle::Handle;

/// The body did not arrive in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the request body did not arrive in time")]
pub struct BodyTimeout;

impl BodyTimeout {
    /// Whether this is why reading a body failed.
    pub fn caused(error: &(dyn std::error::Error + 'static)) -> bool {
        let mut all = std::iter::successors(Some(error), |it| it.source());
        all.any(<dyn std::error::Error>::is::<Self>)
    }
}

/// A request body that must arrive within its deadline.
pub struct RequestBody {
    body: Incoming,
    handle: Arc<Handle>,
    due: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, handle: Arc<Handle>) -> Self {
        let due = Instant::now() + handle.deadlines().body;
        Self { body, handle, due, timer: None, waits: false }
    }

    fn set_waiting(&mut self, waits: bool) {
        match (self.waits, waits) {
            (false, true) => self.handle.change(|it, _| it.begin_wait_for_body()),
            (true, false) => self.handle.update(|it, _| it.end_wait_for_body()),
            (false, false) | (true, true) => {}
        }
        self.waits = waits;
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBody").field("due", &self.due).finish_non_exhaustive()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.set_waiting(false);
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.set_waiting(false);
            return Poll::Ready(frame.map(|it| it.map_err(Into::into)));
        }
        let due = self.due;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if timer.as_mut().poll(context).is_pending() {
            self.set_waiting(true);
            return Poll::Pending;
        }
        self.set_waiting(false);
        self.handle.update(|it, _| it.miss_body());
        Poll::Ready(Some(Err(BodyTimeout.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an answer; the answer ends with it.
pub(crate) struct AnswerBody<B> {
    body: B,
    answering: Answering,
}

/// An answer that is being sent.
struct Answering(Option<Arc<Handle>>);

impl Answering {
    fn end(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.change(Activity::end_answer);
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.end();
    }
}

impl<B> AnswerBody<B> {
    /// The answer has begun on this connection.
    pub(crate) fn new(body: B, handle: Option<Arc<Handle>>) -> Self {
        Self { body, answering: Answering(handle) }
    }
}

impl<B: Body + Unpin> Body for AnswerBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.answering.end();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
