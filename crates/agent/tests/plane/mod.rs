//! A fake control plane for agents: records requests and fails as the test asks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpListener;
use usher_wire::http::{
    AgentEvent, CODE_KEY_REVOKED, Drain, HeartbeatRequest, HeartbeatResponse, LeaveRequest,
    Problem, REGISTER_PATH, RegisterRequest, RegisterResponse, Secret,
};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The recorded requests, and the faults to inject.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) registrations: Vec<RegisterRequest>,
    /// Token to nonce, key and node.
    pub(crate) nodes: BTreeMap<String, (String, String, String)>,
    pub(crate) heartbeats: Vec<HeartbeatRequest>,
    pub(crate) leaves: Vec<LeaveRequest>,
    /// Whether every key is revoked.
    pub(crate) revoked: bool,
    /// Sent with the answer to every heartbeat.
    pub(crate) drain: Option<Drain>,
    /// How many answers are lost after the request was handled.
    pub(crate) lose: u32,
    /// How many calls are refused, and how.
    pub(crate) refuse: Option<(u32, u16, &'static str)>,
    /// The secret that heartbeats are answered with, until a node calls with it.
    pub(crate) rotated: Option<&'static str>,
    /// The bearers of heartbeats.
    pub(crate) bearers: Vec<String>,
    streams: Vec<Sender<Bytes, Infallible>>,
}

/// A running control plane.
#[derive(Clone)]
pub(crate) struct Plane {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// The secret of every node.
pub(crate) const NODE_SECRET: &str = "canary-node-secret";

impl Plane {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let plane = Self { address, state: Arc::default() };
        let serving = plane.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let plane = serving.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let plane = plane.clone();
                        async move { plane.answer(request).await.ok_or(Lost) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        plane
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Sends an event to every open stream.
    pub(crate) fn send(&self, event: AgentEvent) {
        let data = serde_json::to_string(&event).unwrap();
        let bytes = Bytes::from(format!("id: 1\ndata: {data}\n\n"));
        self.state().streams.retain_mut(|it| it.try_send(Frame::data(bytes.clone())).is_ok());
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&State) -> bool) {
        for _ in 0..24_000 {
            if holds(&self.state()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("never: {what}: {:?}", self.state());
    }

    pub(crate) async fn until_listened_to(&self) {
        self.until("an open event stream", |it| !it.streams.is_empty()).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Option<Answer> {
        let path = request.uri().path().to_owned();
        let bearer = request.headers().get("authorization").and_then(|it| it.to_str().ok());
        let bearer = bearer.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default();
        let bearer = bearer.to_owned();
        let body = request.into_body().collect().await.ok()?.to_bytes();
        let mut state = self.state();
        let known = bearer == NODE_SECRET || state.rotated == Some(&bearer);
        if path.ends_with("heartbeat") {
            state.bearers.push(bearer);
        }
        let answer = state.respond(&path, known, &body);
        if state.lose > 0 {
            state.lose -= 1;
            return None;
        }
        Some(answer)
    }
}

impl State {
    fn respond(&mut self, path: &str, known: bool, body: &[u8]) -> Answer {
        if let Some((times, status, code)) = self.refuse {
            self.refuse = (times > 1).then_some((times - 1, status, code));
            return refusal(status, code);
        }
        if path == REGISTER_PATH {
            return self.register(serde_json::from_slice(body).unwrap());
        }
        if self.revoked || !known {
            return refusal(401, CODE_KEY_REVOKED);
        }
        match path.rsplit('/').next() {
            Some("heartbeat") => {
                self.heartbeats.push(serde_json::from_slice(body).unwrap());
                let behind = self.bearers.last().map(String::as_str) != self.rotated;
                let secret = self.rotated.filter(|_| behind);
                let node_secret = secret.map(Secret::new);
                json(200, &HeartbeatResponse { snapshot: 3, drain: self.drain, node_secret })
            }
            Some("leave") => {
                self.leaves.push(serde_json::from_slice(body).unwrap());
                json(200, &())
            }
            Some("events") => {
                let (mut sender, stream) = Channel::new(64);
                let _ = sender.try_send(Frame::data(Bytes::from_static(b": welcome\n\n")));
                self.streams.push(sender);
                Response::new(stream.boxed_unsync())
            }
            Some(_) | None => refusal(404, "not_found"),
        }
    }

    /// The same token, nonce and key are answered as the first time.
    fn register(&mut self, request: RegisterRequest) -> Answer {
        self.registrations.push(request.clone());
        let token = request.bootstrap_token.expose().to_owned();
        let number = self.nodes.len();
        let wanted = (request.nonce, request.public_key);
        let known = self
            .nodes
            .entry(token)
            .or_insert_with(|| (wanted.0.clone(), wanted.1.clone(), format!("node-{number}")));
        if (&known.0, &known.1) != (&wanted.0, &wanted.1) {
            return refusal(403, "token_consumed");
        }
        json(
            201,
            &RegisterResponse {
                node_id: known.2.clone(),
                node_secret: Secret::new(NODE_SECRET),
                heartbeat_ms: 20,
            },
        )
    }
}

#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the answer is lost")
    }
}

impl std::error::Error for Lost {}

fn json(status: u16, message: &impl Serialize) -> Answer {
    let body = Full::new(Bytes::from(serde_json::to_vec(message).unwrap()));
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

fn refusal(status: u16, code: &str) -> Answer {
    json(
        status,
        &Problem {
            kind: format!("/codes/{code}"),
            title: code.to_owned(),
            status,
            code: code.to_owned(),
            detail: String::new(),
        },
    )
}
