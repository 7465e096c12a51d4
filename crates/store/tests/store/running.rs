//! A relay at work, and its ends.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use usher_store::Store;
use usher_store::relay::{Relay, RelayConfig, SecretsOf};

/// What the secret of a sink is.
pub(crate) const SECRET: &str = "c2VjcmV0LW9mLXRoZS1ob29r";

/// A running relay.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) fn start(store: &Arc<Store>, config: RelayConfig) -> Self {
        let secrets = SecretsOf(|name: &str| (name == "HOOK").then(|| SECRET.to_owned()));
        let relay = Relay::new(Arc::clone(store), Arc::new(secrets), config).unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(relay.run(async {
            let _ = stopped.await;
        }));
        Self { stop, task }
    }

    /// Ends it as a program does on a termination signal.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Ends it as `kill -9` does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}
