//! Looks for planted defects: `cargo xtask real differential --planted` builds a copy of the server
//! with all of them, each of which is on for the threads of the server that bears its name.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use kube_client::Client;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use usher_apiserver::ApiServer;

use crate::compare::Difference;
use crate::generate;
use crate::play::{Pair, play};
use crate::run::prepare;
use crate::say;
use crate::side::{embedded, real};
use crate::world;

/// Within so many seeds each defect must be found.
const SEEDS: u64 = 300;
/// So many seeds of two servers without a defect must not differ.
const QUIET: u64 = 100;
/// How many defects are looked for at once.
const AT_ONCE: usize = 3;
/// How long a collector may take until it counts as stuck; without a defect it takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks for every defect; returns those that are not found, and what differs without one.
pub(crate) async fn missed(names: &[&str]) -> Vec<String> {
    let mut missed = Vec::new();
    if let Some((seed, found)) = search("nothing", QUIET).await {
        missed.push(format!("without a defect, seed {seed}: {}", found.kind));
    }
    let searches = names.iter().map(|name| async move { (*name, search(name, SEEDS).await) });
    let mut searches = stream::iter(searches).buffer_unordered(AT_ONCE);
    while let Some((name, found)) = searches.next().await {
        if let Some((seed, found)) = found {
            say(&format!("found in seed {seed:>3}: {name} ({})", found.kind));
        } else {
            say(&format!("not found in {SEEDS} seeds: {name}"));
            missed.push(name.to_owned());
        }
    }
    missed
}

/// The first seed in which a server with the defect differs from one without, twice alike.
async fn search(name: &str, seeds: u64) -> Option<(u64, Difference)> {
    let planted = Planted::start(name).await;
    let clean = embedded().await;
    let pair = Pair { real: planted.client().await, embedded: clean.client(), patience: PATIENCE };
    for client in [&pair.real, &pair.embedded] {
        prepare(client).await;
    }
    let namespace = world::namespace(0);
    let mut result = None;
    for seed in 1..=seeds {
        let (theme, requests) = generate::requests(seed);
        let Some((_, found)) = play(&pair, &namespace, &theme, &requests).await.found else {
            continue;
        };
        let again = play(&pair, &namespace, &theme, &requests).await.found;
        if again.is_some_and(|(_, again)| again.kind == found.kind) {
            result = Some((seed, found));
            break;
        }
    }
    clean.shutdown().await;
    planted.stop().await;
    result
}

/// A server with a defect, in a runtime of its own.
struct Planted {
    runtime: Runtime,
    server: ApiServer,
    folder: TempDir,
}

impl Planted {
    async fn start(name: &str) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(format!("planted:{name}"))
            .enable_all()
            .build()
            .expect("a runtime");
        let started = runtime.spawn(async {
            let server = embedded().await;
            server.serve(([127, 0, 0, 1], 0).into()).await.expect("a listener");
            server
        });
        let server = started.await.expect("a server");
        Self { runtime, server, folder: tempfile::tempdir().expect("a folder") }
    }

    /// A client that reaches the server over TLS: its requests are served by its own threads.
    async fn client(&self) -> Client {
        let path = self.folder.path().join("kubeconfig");
        std::fs::write(&path, self.server.kubeconfig().expect("a kubeconfig")).expect("a file");
        real(path.to_str().expect("Unicode")).await
    }

    async fn stop(self) {
        self.runtime.spawn(self.server.shutdown()).await.expect("its end");
        self.runtime.shutdown_background();
    }
}
