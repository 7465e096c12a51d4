//! What the server does by itself.

pub(crate) mod definitions;

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::core::Core;

/// Starts what works by itself; a quiet server only has its definitions established.
pub(crate) fn start(core: &Arc<Core>, quiet: bool) -> Vec<JoinHandle<()>> {
    let tasks = vec![tokio::spawn(definitions::run(core.clone()))];
    let _ = quiet;
    tasks
}
