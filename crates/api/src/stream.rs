//! Server-sent events as a response body, with keep-alive comments.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_core::Stream;
use serde::Serialize;
use tokio::time::timeout;
use usher_wire::http::EVENTS_TYPE;

/// The interval of keep-alive comments.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// A comment line, which readers skip.
const ALIVE: &[u8] = b":\n\n";

pub(crate) trait Source: Send + 'static {
    /// Waits for the next rendered events; cancel-safe. `None` ends the stream.
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;
}

/// One rendered event. JSON has no raw line breaks.
pub(crate) fn event(id: Option<&str>, kind: Option<&str>, value: &impl Serialize) -> String {
    let data = serde_json::to_string(value).unwrap_or_default();
    let id = id.filter(|it| !it.contains(['\n', '\r', '\0']));
    let id = id.map_or_else(String::new, |it| format!("id: {it}\n"));
    let kind = kind.map_or_else(String::new, |it| format!("event: {it}\n"));
    format!("{id}{kind}data: {data}\n\n")
}

/// A response that ends with its source.
pub(crate) fn answer(source: impl Source) -> Response<Body> {
    // The first comment sends the headers at once.
    let body =
        EventBody { next: Some(Box::pin(async { (Some(Bytes::from_static(ALIVE)), source) })) };
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENTS_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

type Next<S> = Pin<Box<dyn Future<Output = (Option<Bytes>, S)> + Send>>;

struct EventBody<S> {
    next: Option<Next<S>>,
}

impl<S> Unpin for EventBody<S> {}

impl<S: Source> Stream for EventBody<S> {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(next) = self.next.as_mut() else { return Poll::Ready(None) };
        match next.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready((None, _)) => {
                self.next = None;
                Poll::Ready(None)
            }
            Poll::Ready((Some(bytes), source)) => {
                self.next = Some(Box::pin(following(source)));
                Poll::Ready(Some(Ok(bytes)))
            }
        }
    }
}

async fn following<S: Source>(mut source: S) -> (Option<Bytes>, S) {
    let bytes = match timeout(SILENCE_MAX, source.next()).await {
        Ok(written) => written.map(Bytes::from),
        Err(_) => Some(Bytes::from_static(ALIVE)),
    };
    (bytes, source)
}
