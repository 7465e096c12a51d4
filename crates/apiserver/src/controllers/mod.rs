//! The controllers of the server.

mod accounts;
mod aggregation;
mod collector;
pub(crate) mod definitions;
mod expiry;
mod feed;
mod graph;
mod namespaces;
mod services;
mod status;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::core::Core;

const BATCH: usize = 64;
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// The result of a pass over a table.
#[derive(Default)]
struct Pass {
    /// An object waits for the deletion of others.
    leaving: bool,
    /// A write failed and must be retried.
    failed: bool,
}

/// Starts the controllers; `without_collector` only those of CRDs, events and roles.
pub(crate) fn start(
    core: &Arc<Core>,
    without_collector: bool,
    (event_ttl, discovery_interval): (Duration, Option<Duration>),
) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![
        tokio::spawn(definitions::run(core.clone())),
        tokio::spawn(expiry::run(core.clone(), event_ttl)),
        tokio::spawn(aggregation::run(core.clone())),
    ];
    if !without_collector {
        tasks.push(tokio::spawn(collector::run(core.clone(), discovery_interval)));
        tasks.push(tokio::spawn(namespaces::run(core.clone())));
        tasks.push(tokio::spawn(accounts::run(core.clone())));
    }
    tasks
}

/// Makes passes over a table until shutdown: after a change of it, after any change while an object
/// waits for others, and after a failure.
async fn repeat<F>(core: Arc<Core>, table: &str, pass: impl Fn(Arc<Core>) -> F)
where
    F: Future<Output = Pass>,
{
    let mut ending = core.ending.subscribe();
    let table: Arc<str> = Arc::from(table);
    let (_, mut cursor) = core.store.list_and_follow(&table, "");
    let mut patience = FIRST_RETRY;
    loop {
        // Marked before the work, so that a change during it causes another pass.
        let head = core.store.head();
        let Pass { leaving, failed } = pass(core.clone()).await;
        if !failed {
            patience = FIRST_RETRY;
        }
        tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => return,
            changed = cursor.next(BATCH) => {
                if changed.is_err() {
                    cursor = core.store.list_and_follow(&table, "").1;
                }
            }
            () = core.store.changed_after(head), if leaving => {}
            () = tokio::time::sleep(patience), if failed => {
                patience = (patience * 2).min(LAST_RETRY);
            }
        }
    }
}

/// Sleeps until an instant; without one for ever.
pub(crate) async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
