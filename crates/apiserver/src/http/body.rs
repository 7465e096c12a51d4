//! Response bodies: complete or streamed.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;

/// A response body.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

type Next<S> = Pin<Box<dyn Future<Output = (S, Option<Bytes>)> + Send>>;

/// A complete body.
pub(crate) fn whole(bytes: Bytes) -> AnswerBody {
    Full::new(bytes).boxed_unsync()
}

/// A body that polls its source for the next chunk when the last was taken.
pub(crate) fn unfold<S, F, R>(source: S, step: F) -> AnswerBody
where
    S: Send + Unpin + 'static,
    F: Fn(S) -> R + Send + Unpin + 'static,
    R: Future<Output = (S, Option<Bytes>)> + Send + 'static,
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
    R: Future<Output = (S, Option<Bytes>)> + Send + 'static,
{
    type Item = Result<Frame<Bytes>, Infallible>;

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
                if chunk.is_some() {
                    self.source = Some(source);
                }
                Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
            }
        }
    }
}
