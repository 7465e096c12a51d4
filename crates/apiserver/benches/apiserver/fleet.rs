//! Clients that all do the same at once.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::caller::Caller;
use crate::{THINGS, machine, thing};

/// How much of what was done in a second.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates {
    pub(crate) creates: f64,
    pub(crate) gets: f64,
    pub(crate) applies: f64,
    pub(crate) deletes: f64,
    /// How many cores the creations kept busy: fewer than there are when others work, too.
    pub(crate) cores: f64,
}

/// What everybody does.
#[derive(Debug, Clone, Copy)]
enum Deed {
    /// New objects until this moment.
    Create(Instant),
    Get,
    Apply,
    Delete,
}

/// A client, and how many objects it made.
struct Client {
    caller: Caller,
    id: usize,
    made: usize,
}

/// Creates for some time, then gets, applies and deletes everything; also tells how many writes
/// that were.
pub(crate) async fn measure(callers: Vec<Caller>, creates: Duration) -> (Rates, usize) {
    let clients = callers.into_iter().enumerate();
    let clients = clients.map(|(id, caller)| Client { caller, id, made: 0 }).collect();
    let busy = machine::busy();
    let (clients, creates) = all(clients, Deed::Create(Instant::now() + creates)).await;
    let busy = machine::busy().saturating_sub(busy);
    let made: usize = clients.iter().map(|client| client.made).sum();
    let (clients, gets) = all(clients, Deed::Get).await;
    let (clients, applies) = all(clients, Deed::Apply).await;
    let (_, deletes) = all(clients, Deed::Delete).await;
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

/// Lets everybody do the same, and tells how long that took.
async fn all(clients: Vec<Client>, deed: Deed) -> (Vec<Client>, Duration) {
    let started = Instant::now();
    let work = |client: Client| tokio::spawn(client.work(deed));
    let tasks: Vec<_> = clients.into_iter().map(work).collect();
    let mut clients = Vec::new();
    for task in tasks {
        clients.push(task.await.expect("a client"));
    }
    (clients, started.elapsed())
}

impl Client {
    async fn work(mut self, deed: Deed) -> Self {
        if let Deed::Create(until) = deed {
            while Instant::now() < until {
                let body = thing(&self.name(self.made), 0);
                assert_eq!(self.caller.ask("POST", THINGS, body).await.0, 201);
                self.made += 1;
            }
            return self;
        }
        for index in 0..self.made {
            let name = self.name(index);
            let (method, query, body) = match deed {
                Deed::Apply => ("PATCH", "?fieldManager=bench&force=true", thing(&name, 1)),
                Deed::Delete => ("DELETE", "", Bytes::new()),
                Deed::Create(_) | Deed::Get => ("GET", "", Bytes::new()),
            };
            let path = format!("{THINGS}/{name}{query}");
            assert_eq!(self.caller.ask(method, &path, body).await.0, 200);
        }
        self
    }

    fn name(&self, index: usize) -> String {
        format!("t-{}-{index}", self.id)
    }
}
