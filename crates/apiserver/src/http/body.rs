//! The bodies of answers: whole, or a stream that goes on.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

type Next<S> = Pin<Box<dyn Future<Output = (S, Option<Bytes>)> + Send>>;
type Chunks = Pin<Box<dyn futures_core::Stream<Item = Bytes> + Send>>;

/// The body of an answer.
pub(crate) struct AnswerBody(Inner);

enum Inner {
    Whole(Option<Bytes>),
    Stream(Chunks),
}

impl AnswerBody {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self(Inner::Whole(Some(bytes)))
    }

    /// A body that asks its source for the next chunk when the last was taken.
    pub(crate) fn unfold<S, F, R>(source: S, step: F) -> Self
    where
        S: Send + Unpin + 'static,
        F: Fn(S) -> R + Send + Unpin + 'static,
        R: Future<Output = (S, Option<Bytes>)> + Send + 'static,
    {
        let unfold = Unfold { source: Some(source), step, next: None };
        Self(Inner::Stream(Box::pin(unfold)))
    }
}

struct Unfold<S, F> {
    source: Option<S>,
    step: F,
    next: Option<Next<S>>,
}

impl<S, F, R> futures_core::Stream for Unfold<S, F>
where
    S: Send + Unpin + 'static,
    F: Fn(S) -> R + Send + Unpin + 'static,
    R: Future<Output = (S, Option<Bytes>)> + Send + 'static,
{
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
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
                Poll::Ready(chunk)
            }
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Stream(stream) => {
                stream.as_mut().poll_next(context).map(|chunk| chunk.map(|c| Ok(Frame::data(c))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Inner::Stream(_) => SizeHint::default(),
        }
    }
}
