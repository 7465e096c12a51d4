//! Bare commits of the store: the writes of one step, without the server around it.

use std::sync::Arc;
use std::time::Duration;

use usher_domain::broker::event::Event;
use usher_kernel::{NameState, Wake};
use usher_store::{Release, ResourceWrite, Store, WorkItem};

use crate::declare::{World, record, write};
use crate::pace::{AsyncDeed, pace};

/// A worker that commits to its own resource.
struct Worker {
    store: Arc<Store>,
    write: ResourceWrite,
}

struct Commit;

impl AsyncDeed<Worker> for Commit {
    async fn run(&self, worker: &mut Worker) -> u64 {
        let write = &mut worker.write;
        worker.store.commit(write.clone()).await.unwrap();
        write.version = write.version.next();
        std::mem::swap(&mut write.before, &mut write.next);
        1
    }
}

/// Commits per second with this many workers.
pub(crate) async fn per_second(store: &Arc<Store>, workers: usize, span: Duration) -> f64 {
    let world = World::new(store).await;
    let mut prepared = Vec::new();
    for number in 0..workers {
        prepared.push(worker(&world, number).await);
    }
    pace(prepared, span, Commit).await
}

/// Prepares one write of state, name, log and queue, to be repeated.
async fn worker(world: &World, number: usize) -> Worker {
    let id = world.declare(&format!("c{number}")).await.id();
    let item = WorkItem::Resource(id);
    let leased = world.claim(item).await;
    let later = Duration::from_secs(1);
    let mut write =
        write(record(&leased), |it| it.updated_at = it.updated_at.after(later), Some(Event::Ready));
    write.rows = record(&leased).name_ledger.rows().iter().take(1).cloned().collect();
    for row in &mut write.rows {
        row.state = NameState::Seen;
    }
    let (claim, wake) = (leased.claim, Wake::OnChange);
    write.release = Some(Release { item, claim, wake, reason: "AsDeclared" });
    Worker { store: Arc::clone(&world.store), write }
}
