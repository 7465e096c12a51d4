//! Periodic tasks: retention, expiry of tombstones, recording world revisions.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use usher_store::{Error, Retention, Store, Swept};

use super::guard::Guards;
use super::worker::stopped;
use usher_wire::chain;

/// Tombstones per batch.
const BURIED_MAX: u32 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HousekeepingConfig {
    pub retention: Retention,
    /// How long tombstones are kept.
    pub keep: Duration,
    /// How often changed world revisions are recorded.
    pub write_down: Duration,
}

/// Runs until the server stops.
pub async fn run(
    store: Arc<Store>,
    guards: Arc<Guards>,
    config: HousekeepingConfig,
    mut stop: watch::Receiver<bool>,
) {
    let mut sweep_at = Instant::now();
    let mut write_at = Instant::now() + config.write_down;
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            () = sleep_until(sweep_at) => {
                let pause = match sweep(&store, &config).await {
                    Ok(pause) => pause,
                    Err(error) => {
                        tracing::warn!(error = %chain(&error), "failed to delete expired rows");
                        config.retention.rest
                    }
                };
                sweep_at = Instant::now() + pause;
            }
            () = sleep_until(write_at) => {
                write_down(&guards).await;
                write_at = Instant::now() + config.write_down;
            }
        }
    }
    write_down(&guards).await;
}

/// Deletes one batch of expired rows and wakes expired tombstones; returns the next pause.
async fn sweep(store: &Store, config: &HousekeepingConfig) -> Result<Duration, Error> {
    let swept = store.sweep(config.retention).await?;
    if let Some(sink) = &swept.held_by {
        tracing::warn!(sink, "event sink behind: expired events retained");
    }
    let Swept { events, keys, machines, .. } = swept;
    if events + keys + machines > 0 {
        tracing::info!(events, keys, machines, "expired rows deleted");
    }
    let woken = store.wake_tombstones(config.keep, BURIED_MAX).await?;
    let more = woken >= u64::from(BURIED_MAX);
    let pause = swept.next(&config.retention);
    Ok(if more { pause.min(Duration::from_secs(1)) } else { pause })
}

async fn write_down(guards: &Guards) {
    if let Err(error) = guards.write_down().await {
        tracing::warn!(%error, "failed to record the revision of a world");
    }
}
