//! One connection: handshake, requests, and the deadlines of both.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::body::RequestBody;
use crate::counts::CloseReason;
use crate::deadline::{Activity, Protocol};
use crate::handle::Handle;
use crate::service::{ClientCertificate, Tracked};
use crate::watched_io::WatchedIo;

/// The largest request head, and with HTTP/1.1 the size of a buffer.
const HEAD_MAX: u32 = 64 * 1024;
/// The most concurrent requests on an HTTP/2 connection.
const STREAMS_MAX: u32 = 100;
/// The interval of HTTP/2 pings, and how long their answers may take.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle peer may take to read that the connection ends.
const FAREWELL: Duration = Duration::from_secs(1);
/// A deadline that never comes.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// What ended a part of a connection.
enum Outcome<T> {
    Done(T),
    Cut(CloseReason),
    Stop,
}

/// Serves a connection to its end; why it ended.
pub(crate) async fn serve<I, S, B>(
    io: I,
    service: S,
    handle: &Arc<Handle>,
    tls: Option<Arc<ServerConfig>>,
    stop: watch::Receiver<bool>,
) -> CloseReason
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: tower::Service<hyper::Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut watch = Watch::new(handle, stop);
    let io = WatchedIo::new(io, Arc::clone(handle));
    let tracked = |certificate| Tracked { service, handle: Arc::clone(handle), certificate };
    let Some(tls) = tls else {
        return requests(io, tracked(None), &mut watch).await;
    };
    let mut handshake = std::pin::pin!(TlsAcceptor::from(tls).accept(io));
    let stream = match watch.over(handshake.as_mut()).await {
        Outcome::Done(Ok(stream)) => stream,
        Outcome::Done(Err(_)) => return CloseReason::Handshake,
        Outcome::Cut(why) => return why,
        Outcome::Stop => return CloseReason::Stopped,
    };
    let session = stream.get_ref().1;
    if session.alpn_protocol() == Some(b"h2") {
        handle.update(|it, _| it.negotiated(Protocol::Http2));
    }
    // Only certificates of the client CA pass the handshake.
    let certificate = session.peer_certificates().map(|_| ClientCertificate);
    requests(stream, tracked(certificate), &mut watch).await
}

async fn requests<I, S, B>(io: I, service: Tracked<S>, watch: &mut Watch) -> CloseReason
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: tower::Service<hyper::Request<RequestBody>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Unpin + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let handle = Arc::clone(&watch.handle);
    let builder = protocol(handle.read(Activity::protocol));
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(io), service));
    loop {
        match watch.over(connection.as_mut()).await {
            Outcome::Done(Ok(())) => return handle.read(Activity::ended),
            Outcome::Done(Err(_)) => return failed(handle.read(Activity::ended)),
            Outcome::Cut(CloseReason::Idle) => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(FAREWELL, connection).await;
                return CloseReason::Idle;
            }
            Outcome::Cut(why) => return why,
            Outcome::Stop if handle.read(Activity::is_idle) => return CloseReason::Stopped,
            Outcome::Stop => connection.as_mut().graceful_shutdown(),
        }
    }
}

/// A connection that broke after its body was late broke because of that.
fn failed(ended: CloseReason) -> CloseReason {
    if ended == CloseReason::Ended { CloseReason::Failed } else { ended }
}

/// The protocol of ALPN, or HTTP/1.1: detecting it from the first bytes could wait for ever.
fn protocol(agreed: Protocol) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    match agreed {
        Protocol::Http1 => {
            // hyper's own header timeout also runs between requests, so `Deadlines` replaces it.
            builder.http1().header_read_timeout(None).max_buf_size(HEAD_MAX as usize);
            builder.http1_only()
        }
        Protocol::Http2 => {
            builder
                .http2()
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(HEAD_MAX)
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT);
            builder.http2_only()
        }
    }
}

/// Watches over a connection: its deadline, its eviction and the end of the server.
struct Watch {
    handle: Arc<Handle>,
    stop: watch::Receiver<bool>,
    stopping: bool,
    evicted: bool,
    timer: Pin<Box<Sleep>>,
}

impl Watch {
    fn new(handle: &Arc<Handle>, stop: watch::Receiver<bool>) -> Self {
        let timer = Box::pin(sleep_until(Instant::now() + NEVER));
        Self { handle: Arc::clone(handle), stop, stopping: false, evicted: false, timer }
    }

    async fn over<F: Future>(&mut self, mut work: Pin<&mut F>) -> Outcome<F::Output> {
        loop {
            // A request that has arrived is answered first.
            if self.evicted && self.handle.read(Activity::waits) {
                return Outcome::Cut(CloseReason::Evicted);
            }
            let due = self.handle.deadline();
            let at = due.map_or_else(|| Instant::now() + NEVER, |(at, _)| at);
            // A timer that is too early is cheaper than one that is set anew for every request.
            if at < self.timer.deadline() || self.timer.is_elapsed() {
                self.timer.as_mut().reset(at);
            }
            tokio::select! {
                biased;
                done = work.as_mut() => return Outcome::Done(done),
                () = self.handle.evicted(), if !self.evicted => self.evicted = true,
                _ = self.stop.wait_for(|it| *it), if !self.stopping => {
                    self.stopping = true;
                    return Outcome::Stop;
                }
                () = self.handle.changed() => {}
                () = self.timer.as_mut() => {
                    if let Some((at, why)) = self.handle.deadline()
                        && at <= Instant::now()
                    {
                        return Outcome::Cut(why);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
