//! What the server does by itself.

mod collector;
pub(crate) mod definitions;
mod feed;
mod graph;
mod namespaces;
mod services;
mod status;

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::core::Core;

/// Starts what works by itself; a quiet server only has its definitions established.
pub(crate) fn start(core: &Arc<Core>, quiet: bool) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![tokio::spawn(definitions::run(core.clone()))];
    if !quiet {
        tasks.push(tokio::spawn(collector::run(core.clone())));
        tasks.push(tokio::spawn(namespaces::run(core.clone())));
    }
    tasks
}
