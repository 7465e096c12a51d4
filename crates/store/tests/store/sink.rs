//! A sink to deliver to: a real HTTP server on this machine with scripted answers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use usher_domain::sinks::{Proof, Sink};

/// What the server does with one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Answers with this status and these headers.
    Status(u16, Vec<(&'static str, String)>),
    /// Takes it after a while.
    Slow(Duration),
    /// Takes it, and closes the connection without an answer.
    Silent,
}

/// One delivery as it came.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) event: Value,
    pub(crate) at: std::time::Instant,
}

impl Delivery {
    pub(crate) fn id(&self) -> &str {
        self.event["id"].as_str().unwrap()
    }
}

#[derive(Default)]
struct Received {
    deliveries: Vec<Delivery>,
    replies: VecDeque<Reply>,
    usual: Option<Reply>,
}

/// The server; it ends with the value.
pub(crate) struct Receiver {
    port: u16,
    log: Arc<Mutex<Received>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    pub(crate) async fn new() -> Self {
        Self::at(0).await
    }

    pub(crate) async fn at(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Mutex::new(Received::default()));
        let task = tokio::spawn(listen(listener, Arc::clone(&log)));
        Self { port, log, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn sink(&self, name: &str, proof: Option<Proof>) -> Sink {
        let url = format!("http://127.0.0.1:{}/hooks/{name}", self.port);
        Sink::new(name.parse().unwrap(), url.parse().unwrap(), proof).unwrap()
    }

    /// The next deliveries are answered so, and those after them are taken.
    pub(crate) fn reply(&self, replies: impl IntoIterator<Item = Reply>) {
        self.log.lock().unwrap().replies.extend(replies);
    }

    /// Every delivery is answered so from now on; `None` takes them.
    pub(crate) fn always(&self, reply: Option<Reply>) {
        self.log.lock().unwrap().usual = reply;
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.log.lock().unwrap().deliveries.clone()
    }

    /// Waits until there are so many deliveries.
    pub(crate) async fn received(&self, count: usize) -> Vec<Delivery> {
        for _ in 0..12_000 {
            let deliveries = self.deliveries();
            if deliveries.len() >= count {
                return deliveries;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{count} deliveries did not come, but {}", self.deliveries().len());
    }
}

async fn listen(listener: TcpListener, log: Arc<Mutex<Received>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let log = Arc::clone(&log);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, &log));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// A connection that ends without an answer.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("closed")
    }
}

impl std::error::Error for Closed {}

impl From<Infallible> for Closed {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

async fn answer(
    request: Request<Incoming>,
    log: &Mutex<Received>,
) -> Result<Response<Full<Bytes>>, Closed> {
    let headers = request.headers().clone();
    let body = request.into_body().collect().await.map_err(|_| Closed)?.to_bytes();
    let event = serde_json::from_slice(&body).unwrap();
    let at = std::time::Instant::now();
    let reply = {
        let mut log = log.lock().unwrap();
        log.deliveries.push(Delivery { headers, body, event, at });
        let usual = log.usual.clone();
        log.replies.pop_front().or(usual).unwrap_or(Reply::Status(204, vec![]))
    };
    match reply {
        Reply::Status(status, headers) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(Full::default()).unwrap())
        }
        Reply::Slow(pause) => {
            tokio::time::sleep(pause).await;
            Ok(Response::new(Full::default()))
        }
        Reply::Silent => Err(Closed),
    }
}
