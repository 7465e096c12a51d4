//! The controllers of the server.

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

/// Starts the controllers; `without_collector` only those of CRDs and events.
pub(crate) fn start(
    core: &Arc<Core>,
    without_collector: bool,
    event_ttl: Duration,
) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![
        tokio::spawn(definitions::run(core.clone())),
        tokio::spawn(expiry::run(core.clone(), event_ttl)),
    ];
    if !without_collector {
        tasks.push(tokio::spawn(collector::run(core.clone())));
        tasks.push(tokio::spawn(namespaces::run(core.clone())));
    }
    tasks
}

/// Sleeps until an instant; without one for ever.
async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
