//! Response bodies: complete or streamed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

/// A response body.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, Broken>;

/// The end of a body by an injected fault: its connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection was broken by an injected fault")]
pub(crate) struct Broken;

/// The next chunk of a body; `None` at its end.
pub(crate) type Chunk = Option<Result<Bytes, Broken>>;

type Next<S> = Pin<Box<dyn Future<Output = (S, Chunk)> + Send>>;

/// A complete body.
pub(crate) fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A body that polls its source for the next chunk when the last was taken.
pub(crate) fn unfold<S, F, R>(source: S, step: F) -> AnswerBody
where
    S: Send + Unpin + 'static,
    F: Fn(S) -> R + Send + Unpin + 'static,
    R: Future<Output = (S, Chunk)> + Send + 'static,
{
    StreamBody::new(Unfold { source: Some(source), step, next: None }).boxed_unsync()
}

struct Unfold<S, F> {
    source: Option<S>,
    step: F,
    next: Option<Next<S>>,
}

impl<S, F, R> Stream for Unfold<S, F>
where
    S: Send + Unpin + 'static,
    F: Fn(S) -> R + Send + Unpin + 'static,
    R: Future<Output = (S, Chunk)> + Send + 'static,
{
    type Item = Result<Frame<Bytes>, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.next.is_none() {
            let Some(source) = self.source.take() else { return Poll::Ready(None) };
            let next = (self.step)(source);
            self.next = Some(Box::pin(next));
        }
        let Some(next) = self.next.as_mut() else { return Poll::Ready(None) };
        match next.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready((source, chunk)) => {
                self.next = None;
                if matches!(chunk, Some(Ok(_))) {
                    self.source = Some(source);
                }
                Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
            }
        }
    }
}
