//! Group commit of an epoch: writes of concurrent steps share one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use usher_kernel::Trouble;
use usher_store::{Cycle, Error, MachineWrite};

use super::epoch::Epoch;

/// The most writes of one transaction.
const BATCH_MAX: usize = 500;
/// Queued writes; beyond that callers wait.
const WAITING_MAX: usize = 2 * BATCH_MAX;

/// A write, and where its outcome is sent.
type QueuedWrite = (MachineWrite, oneshot::Sender<Result<(), Trouble>>);

/// Where steps submit writes.
#[derive(Clone, Debug)]
pub struct Writer {
    asked: mpsc::Sender<QueuedWrite>,
}

/// The task that commits submitted writes.
pub struct Writing {
    epoch: Arc<Epoch>,
    asked: mpsc::Receiver<QueuedWrite>,
}

/// The two ends of the queue.
pub fn writer(epoch: &Arc<Epoch>) -> (Writer, Writing) {
    let (give, take) = mpsc::channel(WAITING_MAX);
    (Writer { asked: give }, Writing { epoch: Arc::clone(epoch), asked: take })
}

impl Writer {
    /// Writes one machine if its version still holds.
    pub async fn write(&self, write: MachineWrite) -> Result<(), Trouble> {
        let ended = || Trouble::unavailable("an epoch that ended".to_owned());
        let (reply, outcome) = oneshot::channel();
        self.asked.send((write, reply)).await.map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

impl Writing {
    /// Commits until every [`Writer`] is dropped.
    pub async fn run(mut self) {
        let mut batch = Vec::new();
        while self.asked.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let (now, later) = split(std::mem::take(&mut batch));
            batch = later;
            self.write(now).await;
            while !batch.is_empty() {
                let (now, later) = split(std::mem::take(&mut batch));
                batch = later;
                self.write(now).await;
            }
        }
    }

    async fn write(&self, asked: Vec<QueuedWrite>) {
        let (writes, waiting): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let ids: Vec<_> = writes.iter().map(|it| it.id).collect();
        let cycle = Cycle { lease: self.epoch.lease(), writes, adopted: vec![], lists: vec![] };
        let written = self.epoch.store.commit_cycle(cycle).await;
        if matches!(written, Err(Error::LeaseLost { .. })) {
            self.epoch.lost.notify_one();
        }
        for (id, reply) in ids.into_iter().zip(waiting) {
            let became = match &written {
                Ok(written) if written.moved.contains(&id) => Err(Trouble::Conflict),
                Ok(_) => Ok(()),
                Err(error) => Err(error.trouble()),
            };
            // A step that stopped waiting reads the row again.
            let _ = reply.send(became);
        }
    }
}

/// Splits off second writes of a machine: one transaction writes a machine once.
fn split(asked: Vec<QueuedWrite>) -> (Vec<QueuedWrite>, Vec<QueuedWrite>) {
    let mut ids = BTreeSet::new();
    asked.into_iter().partition(|it| ids.insert(it.0.id))
}
