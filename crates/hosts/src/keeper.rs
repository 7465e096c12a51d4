//! The thread that supervises the nodes, woken by callers and by the exit of each node.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use usher_kernel::Timestamp;

use super::Places;
use crate::clock;
use crate::supervisor::{Outcome, Supervisor, Wanted};

/// The poll interval of a node without a process handle, or with another supervisor.
const SOON: Duration = Duration::from_millis(50);

/// Which nodes to reconcile.
enum Poke {
    One(String),
    All,
}

/// The handle of the thread.
#[derive(Debug)]
pub(super) struct Keeper {
    bell: Arc<Sender<Poke>>,
    /// Counts the rounds of the thread.
    rounds: watch::Receiver<u64>,
}

/// Wakes the thread when a node exits.
struct Ends {
    runtime: Handle,
    bell: Weak<Sender<Poke>>,
    /// The nodes that are waited for, with their pids.
    awaited: BTreeMap<String, (i32, AbortHandle)>,
}

impl Keeper {
    /// Starts the thread; it ends when the keeper is dropped.
    pub(super) fn start(places: Places) -> io::Result<Self> {
        let (bell, pokes) = mpsc::channel();
        let bell = Arc::new(bell);
        let (round, rounds) = watch::channel(0);
        let _ = bell.send(Poke::All);
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let awaited = BTreeMap::new();
        let ends = Ends { runtime, bell: Arc::downgrade(&bell), awaited };
        std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || keep(&places, &pokes, &round, ends))?;
        Ok(Self { bell, rounds })
    }

    /// Requests a reconcile of one node.
    pub(super) fn tend(&self, host: &str) {
        let _ = self.bell.send(Poke::One(host.to_owned()));
    }

    /// Requests a reconcile of every node.
    pub(super) fn tend_all(&self) {
        let _ = self.bell.send(Poke::All);
    }

    /// Calls `ask` after each round until it returns a value.
    pub(super) async fn wait_for<T>(
        &self,
        ask: impl Fn() -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let mut rounds = self.rounds.clone();
        loop {
            rounds.mark_unchanged();
            if let Some(answer) = ask()? {
                return Ok(answer);
            }
            let ended = |_| io::Error::other("the keeper ended");
            rounds.changed().await.map_err(ended)?;
        }
    }
}

impl Ends {
    /// Waits for the exit of the running process of a node; `None` stops the waiting.
    fn await_end(&mut self, name: &str, running: Option<(i32, &OwnedFd)>) {
        let known = self.awaited.get(name).map(|(number, _)| *number);
        if known == running.map(|(number, _)| number) {
            return;
        }
        if let Some((_, waiting)) = self.awaited.remove(name) {
            waiting.abort();
        }
        let Some((number, handle)) = running else { return };
        match handle.try_clone() {
            Ok(handle) => {
                let exited = ring_at_end(handle, name.to_owned(), Weak::clone(&self.bell));
                let waiting = self.runtime.spawn(exited).abort_handle();
                self.awaited.insert(name.to_owned(), (number, waiting));
            }
            Err(why) => tracing::warn!(host = name, %why, "failed to wait for the exit of a node"),
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for (_, waiting) in self.awaited.values() {
            waiting.abort();
        }
    }
}

async fn ring_at_end(handle: OwnedFd, name: String, bell: Weak<Sender<Poke>>) {
    #[expect(deprecated, reason = "its successor is unsafe; this descriptor never changes")]
    let waiting = AsyncFd::with_interest(handle, Interest::READABLE);
    let ended = match waiting {
        Ok(waiting) => waiting.readable().await.map(|_| ()),
        Err(why) => Err(why),
    };
    if let Err(why) = ended {
        tracing::warn!(host = name, %why, "failed to wait for the exit of a node");
        return;
    }
    if let Some(bell) = bell.upgrade() {
        let _ = bell.send(Poke::One(name));
    }
}

fn keep(places: &Places, pokes: &Receiver<Poke>, round: &watch::Sender<u64>, mut ends: Ends) {
    let mut supervisor = Supervisor::new(places.units.clone());
    let mut due: BTreeMap<String, Timestamp> = BTreeMap::new();
    loop {
        let next = due.values().min().copied();
        let call = match next {
            None => pokes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => pokes.recv_timeout(at.since(clock::now())),
        };
        let now = clock::now();
        let names = match call {
            Ok(Poke::One(name)) => vec![name],
            // Includes nodes whose record another process removed.
            Ok(Poke::All) => {
                let tended = supervisor.tended().map(str::to_owned);
                let recorded = places.units.names().unwrap_or_default();
                tended.chain(recorded).collect::<BTreeSet<_>>().into_iter().collect()
            }
            Err(RecvTimeoutError::Timeout) => {
                due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect()
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for name in names {
            due.remove(&name);
            match tend(places, &mut supervisor, &name, now) {
                Ok(Outcome::Waiting(at)) => _ = due.insert(name.clone(), at),
                // The previous supervisor is about to exit.
                Ok(Outcome::Elsewhere) => _ = due.insert(name.clone(), now.after(SOON)),
                Ok(Outcome::Resting | Outcome::Gone) => {}
                Err(why) => {
                    tracing::warn!(host = name, %why, "failed to supervise a node");
                    due.insert(name.clone(), now.after(Duration::from_secs(1)));
                }
            }
            ends.await_end(&name, supervisor.running(&name));
        }
        round.send_modify(|it| *it += 1);
    }
}

fn tend(
    places: &Places,
    supervisor: &mut Supervisor,
    name: &str,
    now: Timestamp,
) -> io::Result<Outcome> {
    let wanted = if places.runs(name)? { Wanted::Run } else { Wanted::Stop };
    let outcome = supervisor.tend(name, wanted, now)?;
    // There is no handle that signals its exit, and the caller of the drain waits for it.
    if let Outcome::Waiting(at) = outcome
        && wanted == Wanted::Stop
        && supervisor.running(name).is_none()
    {
        return Ok(Outcome::Waiting(at.min(now.after(SOON))));
    }
    Ok(outcome)
}
