//! The thread that supervises the nodes.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use tokio::sync::watch;
use usher_kernel::Timestamp;

use super::Places;
use crate::clock;
use crate::serve::supervisor::{Outcome, Supervisor, Wanted};

/// How soon a node that is leaving is looked at again.
const SOON: Duration = Duration::from_millis(50);

/// Whom to look at.
enum Poke {
    One(String),
    All,
}

/// The thread, as others see it.
#[derive(Debug)]
pub(super) struct Keeper {
    bell: Sender<Poke>,
    /// Changes whenever somebody was looked at.
    rounds: watch::Receiver<u64>,
}

impl Keeper {
    /// Starts the thread; it ends with the last of its keeper.
    pub(super) fn start(places: Places) -> io::Result<Self> {
        let (bell, orders) = mpsc::channel();
        let (round, rounds) = watch::channel(0);
        let _ = bell.send(Poke::All);
        std::thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || keep(&places, &orders, &round))?;
        Ok(Self { bell, rounds })
    }

    /// Has one node looked at.
    pub(super) fn tend(&self, host: &str) {
        let _ = self.bell.send(Poke::One(host.to_owned()));
    }

    /// Has every node looked at.
    pub(super) fn tend_all(&self) {
        let _ = self.bell.send(Poke::All);
    }

    /// Asks after each round until there is an answer.
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

fn keep(places: &Places, orders: &Receiver<Poke>, round: &watch::Sender<u64>) {
    let mut supervisor = Supervisor::new(places.units.clone());
    let mut due: BTreeMap<String, Timestamp> = BTreeMap::new();
    loop {
        let next = due.values().min().copied();
        let call = match next {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => orders.recv_timeout(at.since(clock::now())),
        };
        let now = clock::now();
        let names = match call {
            Ok(Poke::One(name)) => vec![name],
            Ok(Poke::All) => places.units.names().unwrap_or_default(),
            Err(RecvTimeoutError::Timeout) => {
                due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect()
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for name in names {
            due.remove(&name);
            match tend(places, &mut supervisor, &name, now) {
                Ok(Outcome::Waiting(at)) => _ = due.insert(name, at),
                Ok(Outcome::Elsewhere | Outcome::Resting | Outcome::Gone) => {}
                Err(why) => {
                    tracing::warn!(host = name, %why, "cannot look after a node");
                    due.insert(name, now.after(Duration::from_secs(1)));
                }
            }
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
    Ok(match (supervisor.tend(name, wanted, now)?, wanted) {
        // Its end is told to nobody, and whoever drains it waits for that.
        (Outcome::Waiting(at), Wanted::Stop) => Outcome::Waiting(at.min(now.after(SOON))),
        (outcome, Wanted::Run | Wanted::Hold | Wanted::Stop) => outcome,
    })
}
