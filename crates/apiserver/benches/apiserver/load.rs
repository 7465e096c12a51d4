//! What the clients do, each over a connection of its own.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::caller::{Caller, Endpoint};
use crate::thing::{self, THINGS};

/// The number of clients.
pub(crate) const CLIENTS: usize = 16;
/// The number of objects in a namespace that is listed.
pub(crate) const LISTED: usize = 10_000;

/// What every client does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Work {
    /// Creates objects for this long.
    Create(Duration),
    /// Reads those objects, one after another, for this long.
    Get(Duration),
    /// Lists the objects of one namespace for this long.
    List(Duration),
    /// Creates this many objects in all, in namespaces of [`LISTED`].
    Fill(usize),
    /// Creates this many objects in all, in the namespace that is watched.
    Burst(usize),
}

/// What the clients did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
    pub(crate) took: Duration,
}

/// The clients of one server.
pub(crate) struct Clients {
    clients: Vec<Client>,
}

struct Client {
    caller: Caller,
    id: usize,
    created: usize,
    requests: usize,
    bytes: usize,
}

impl Done {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }
}

impl Clients {
    /// Connects all.
    pub(crate) async fn connect(endpoint: &Endpoint) -> Self {
        let mut clients = Vec::new();
        for id in 0..CLIENTS {
            let caller = endpoint.connect().await;
            clients.push(Client { caller, id, created: 0, requests: 0, bytes: 0 });
        }
        Self { clients }
    }

    /// Lets all work at once until each is done.
    pub(crate) async fn work(&mut self, work: Work) -> Done {
        let started = Instant::now();
        let tasks: Vec<_> =
            self.clients.drain(..).map(|client| tokio::spawn(client.work(work))).collect();
        for task in tasks {
            self.clients.push(task.await.expect("a client"));
        }
        let took = started.elapsed();
        let requests = self.clients.iter().map(|client| client.requests).sum();
        let bytes = self.clients.iter().map(|client| client.bytes).sum();
        Done { requests, bytes, took }
    }
}

/// The namespace of the filled objects from this one on.
pub(crate) fn namespace(index: usize) -> String {
    format!("fill-{}", index / LISTED)
}

impl Client {
    async fn work(mut self, work: Work) -> Self {
        (self.requests, self.bytes) = (0, 0);
        let until = |time: Duration| Instant::now() + time;
        match work {
            Work::Create(time) => {
                let until = until(time);
                while Instant::now() < until {
                    let body = thing::small(&self.name(self.created), 0);
                    self.call("POST", THINGS, body, 201).await;
                    self.created += 1;
                }
            }
            Work::Get(time) => {
                let until = until(time);
                for index in (0..self.created).cycle() {
                    if Instant::now() > until {
                        break;
                    }
                    let path = format!("{THINGS}/{}", self.name(index));
                    self.call("GET", &path, Bytes::new(), 200).await;
                }
            }
            Work::List(time) => {
                let until = until(time);
                while Instant::now() < until {
                    self.call("GET", &thing::path(&namespace(0)), Bytes::new(), 200).await;
                }
            }
            Work::Fill(objects) => {
                for index in (self.id..objects).step_by(CLIENTS) {
                    let path = thing::path(&namespace(index));
                    let body = thing::small(&format!("filled-{index:06}"), 0);
                    self.call("POST", &path, body, 201).await;
                }
            }
            Work::Burst(objects) => {
                for index in (self.id..objects).step_by(CLIENTS) {
                    let body = thing::small(&format!("burst-{index:06}"), 0);
                    self.call("POST", THINGS, body, 201).await;
                }
            }
        }
        self
    }

    async fn call(&mut self, method: &str, path: &str, body: Bytes, wanted: u16) {
        let (status, body) = self.caller.call(method, path, body).await;
        assert_eq!(status, wanted, "{method} {path}: {}", String::from_utf8_lossy(&body));
        self.requests += 1;
        self.bytes += body.len();
    }

    fn name(&self, index: usize) -> String {
        format!("created-{}-{index:06}", self.id)
    }
}
