//! What must be done now and then: forgetting, putting away, writing down.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use usher_store::{Error, Retention, Store, Swept};

use super::guard::Guards;
use super::worker::stopped;
use usher_wire::chain;

/// How many tombstones are woken at a time.
const BURIED_MAX: u32 = 100;

/// The figures of housekeeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// What is forgotten.
    pub retention: Retention,
    /// How long tombstones are kept.
    pub keep: Duration,
    /// How often it is written down how far the worlds have come, if they have.
    pub write_down: Duration,
}

/// Keeps house until it is told to stop.
pub async fn run(
    store: Arc<Store>,
    guards: Arc<Guards>,
    figures: Figures,
    mut stop: watch::Receiver<bool>,
) {
    let mut sweep_at = Instant::now();
    let mut write_at = Instant::now() + figures.write_down;
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            () = sleep_until(sweep_at) => {
                let pause = match sweep(&store, &figures).await {
                    Ok(pause) => pause,
                    Err(error) => {
                        tracing::warn!(error = %chain(&error), "cannot keep house");
                        figures.retention.rest
                    }
                };
                sweep_at = Instant::now() + pause;
            }
            () = sleep_until(write_at) => {
                write_down(&guards).await;
                write_at = Instant::now() + figures.write_down;
            }
        }
    }
    write_down(&guards).await;
}

/// Forgets one batch, wakes tombstones that may be put away; when to come again.
async fn sweep(store: &Store, figures: &Figures) -> Result<Duration, Error> {
    let swept = store.sweep(figures.retention).await?;
    if let Some(sink) = &swept.held_by {
        tracing::warn!(sink, "a sink keeps events that are old enough to be forgotten");
    }
    let Swept { events, keys, machines, .. } = swept;
    if events + keys + machines > 0 {
        tracing::info!(events, keys, machines, "forgot what is old");
    }
    let woken = store.wake_tombstones(figures.keep, BURIED_MAX).await?;
    let more = woken >= u64::from(BURIED_MAX);
    let pause = swept.next(&figures.retention);
    Ok(if more { pause.min(Duration::from_secs(1)) } else { pause })
}

async fn write_down(guards: &Guards) {
    if let Err(error) = guards.write_down().await {
        tracing::warn!(%error, "failed to record the revision of a world");
    }
}
