//! Concurrent clients.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::caller::Caller;
use crate::machine;
use crate::thing::{THINGS, large};

/// Operations per second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) creates: f64,
    pub(crate) gets: f64,
    pub(crate) applies: f64,
    pub(crate) deletes: f64,
    /// The cores that the creations used.
    pub(crate) cores: f64,
}

/// What each client does.
#[derive(Debug, Clone, Copy)]
enum Operation {
    /// Creates objects until this instant.
    Create(Instant),
    Get,
    Apply,
    Delete,
}

/// A client and the number of its objects.
struct Client {
    caller: Caller,
    id: usize,
    made: usize,
}

/// Creates for some time, then gets, applies and deletes everything; also returns how many writes
/// that were.
pub(crate) async fn measure(callers: Vec<Caller>, creates: Duration) -> (Rates, usize) {
    let clients = callers.into_iter().enumerate();
    let clients = clients.map(|(id, caller)| Client { caller, id, made: 0 }).collect();
    let busy = machine::busy();
    let (clients, creates) = all(clients, Operation::Create(Instant::now() + creates)).await;
    let busy = machine::busy().saturating_sub(busy);
    let made: usize = clients.iter().map(|client| client.made).sum();
    let (clients, gets) = all(clients, Operation::Get).await;
    let (clients, applies) = all(clients, Operation::Apply).await;
    let (_, deletes) = all(clients, Operation::Delete).await;
    let rate = |took: Duration| made as f64 / took.as_secs_f64();
    let rates = Rates {
        creates: rate(creates),
        gets: rate(gets),
        applies: rate(applies),
        deletes: rate(deletes),
        cores: busy.as_secs_f64() / creates.as_secs_f64(),
    };
    (rates, made * 3)
}

/// Runs the operation on every client; returns the elapsed time.
async fn all(clients: Vec<Client>, operation: Operation) -> (Vec<Client>, Duration) {
    let started = Instant::now();
    let work = |client: Client| tokio::spawn(client.work(operation));
    let tasks: Vec<_> = clients.into_iter().map(work).collect();
    let mut clients = Vec::new();
    for task in tasks {
        clients.push(task.await.expect("a client"));
    }
    (clients, started.elapsed())
}

impl Client {
    async fn work(mut self, operation: Operation) -> Self {
        if let Operation::Create(until) = operation {
            while Instant::now() < until {
                let body = large(&self.name(self.made), 0);
                assert_eq!(self.caller.call("POST", THINGS, body).await.0, 201);
                self.made += 1;
            }
            return self;
        }
        for index in 0..self.made {
            let name = self.name(index);
            let (method, query, body) = match operation {
                Operation::Apply => ("PATCH", "?fieldManager=bench&force=true", large(&name, 1)),
                Operation::Delete => ("DELETE", "", Bytes::new()),
                Operation::Create(_) | Operation::Get => ("GET", "", Bytes::new()),
            };
            let path = format!("{THINGS}/{name}{query}");
            assert_eq!(self.caller.call(method, &path, body).await.0, 200);
        }
        self
    }

    fn name(&self, index: usize) -> String {
        format!("t-{}-{index}", self.id)
    }
}
