//! The presence of this server among those that share its database, and its one poll of them.
//!
//! ```text
//!   appear ──▶ poll ──▶ the mesh expects the nodes that no present server hears
//!      ▲        │  └──▶ drains that other servers lead are followed
//!      └─ error ┘
//! ```
//!
//! **Invariants**
//! - While nothing changes there is one poll and no other query, and nothing is written.
//! - A server whose poll failed is absent, and comes back under another number.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use usher_store::{Error, Presence, Store};
use usher_wire::chain;

use super::drains::Drains;
use super::mesh::Mesh;
use super::worker::stopped;

/// The delay before a failed poll is repeated.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Keeps this server present.
pub struct PresencePoller {
    store: Arc<Store>,
    mesh: Arc<Mesh>,
    drains: Drains,
    presence: Option<Presence>,
}

impl PresencePoller {
    pub fn new(store: Arc<Store>, mesh: Arc<Mesh>) -> Self {
        let drains = Drains::new(Arc::clone(&store), Arc::clone(&mesh));
        Self { store, mesh, drains, presence: None }
    }

    /// Runs until the server stops. The only server of a store polls once.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let pause = match self.poll().await {
                Ok(()) => self.store.log_poll().map(|it| self.drains.pause(it)),
                Err(error) => {
                    self.mesh.vanish();
                    self.presence = None;
                    tracing::warn!(error = %chain(&error), "failed to poll the other servers");
                    Some(RETRY_AFTER)
                }
            };
            let again = async {
                match pause {
                    Some(pause) => sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = again => {}
            }
        }
    }

    async fn poll(&mut self) -> Result<(), Error> {
        let presence = match &mut self.presence {
            Some(presence) => presence,
            absent @ None => {
                let presence = self.store.appear().await?;
                self.mesh.appear(presence.number);
                tracing::info!(number = presence.number.0, "server present");
                absent.insert(presence)
            }
        };
        let sighting = self.store.sight(presence).await?;
        self.mesh.expect(&sighting);
        // Drains end by their deadlines, too.
        if self.store.is_shared()
            && let Err(error) = self.drains.observe(sighting.draining_projects).await
        {
            tracing::warn!(error = %chain(&error), "failed to follow drains");
        }
        Ok(())
    }
}
