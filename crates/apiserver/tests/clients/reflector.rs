//! Reflectors across interrupted watches.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{DeleteParams, PostParams};
use kube_client::{Api, ResourceExt as _};
use kube_runtime::reflector::{self, Store};
use kube_runtime::watcher::{self, Error};
use kube_runtime::{WatchStreamExt as _, watcher as watch};
use tokio::sync::Notify;
use usher_apiserver::{ApiServer, Fault};

use crate::config_map;

/// What a reflector holds, and the codes of the errors it received.
struct Follower {
    store: Store<ConfigMap>,
    codes: Arc<Mutex<Vec<u16>>>,
    moved: Arc<Notify>,
}

impl Follower {
    fn start(server: &ApiServer, config: watcher::Config) -> Self {
        let api: Api<ConfigMap> = Api::default_namespaced(server.client());
        let (store, writer) = reflector::store();
        let codes = Arc::new(Mutex::new(Vec::new()));
        let moved = Arc::new(Notify::new());
        let (theirs, notify) = (codes.clone(), moved.clone());
        let stream = watch(api, config).default_backoff().reflect(writer);
        tokio::spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(item) = stream.next().await {
                if let Err(Error::WatchError(status)) = &item {
                    theirs.lock().expect("refusals").push(status.code);
                }
                notify.notify_one();
            }
        });
        Self { store, codes, moved }
    }

    /// Waits until the store has exactly these objects.
    async fn holds(&self, wanted: &[&str]) {
        let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        loop {
            let held: BTreeSet<String> =
                self.store.state().iter().map(|map| map.name_any()).collect();
            if held == wanted {
                return;
            }
            self.moved.notified().await;
        }
    }
}

/// The first watch ends after one event, and no other begins before the faults are cleared.
fn drop_watches(server: &ApiServer) -> Arc<AtomicUsize> {
    let watches = Arc::new(AtomicUsize::new(0));
    let counted = watches.clone();
    server.set_faults(move |asked| {
        let ours = asked.verb == "watch" && asked.resource == "configmaps" && asked.user == "admin";
        match ours.then(|| counted.fetch_add(1, Ordering::SeqCst)) {
            Some(0) => Fault::EndWatchAfter(1),
            Some(_) => Fault::Refuse(503),
            None => Fault::None,
        }
    });
    watches
}

// Requirement: AK-21
#[tokio::test]
async fn a_reflector_survives_dropped_watches_and_compaction() {
    let server = ApiServer::builder().build().await.expect("a server");
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let make = async |name: &str| {
        let map = config_map(name, "k", "v");
        api.create(&PostParams::default(), &map).await.expect("made");
    };
    make("a").await;
    drop_watches(&server);
    let follower = Follower::start(&server, watcher::Config::default());
    follower.holds(&["a"]).await;
    make("b").await;
    follower.holds(&["a", "b"]).await;
    make("c").await;
    api.delete("a", &DeleteParams::default()).await.expect("deleted");
    server.forget_history();
    server.clear_faults();
    follower.holds(&["b", "c"]).await;
    assert_eq!(follower.codes.lock().expect("refusals").clone(), [410]);
    make("d").await;
    follower.holds(&["b", "c", "d"]).await;
}

// Requirement: AK-61
#[tokio::test]
async fn a_reflector_survives_watches_that_break_in_an_event() {
    let server = ApiServer::builder().build().await.expect("a server");
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let broken = Arc::new(AtomicUsize::new(0));
    let counted = broken.clone();
    server.set_faults(move |asked| {
        let ours = asked.verb == "watch" && asked.resource == "configmaps" && asked.user == "admin";
        if ours && counted.fetch_add(1, Ordering::SeqCst) < 3 {
            return Fault::BreakWatchAfter(1);
        }
        Fault::None
    });
    let follower = Follower::start(&server, watcher::Config::default());
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        let map = config_map(name, "k", "v");
        api.create(&PostParams::default(), &map).await.expect("made");
    }
    follower.holds(&names).await;
    assert!(broken.load(Ordering::SeqCst) > 1, "a watch broke and was repeated");
}

// Requirement: AK-21
#[tokio::test]
async fn a_reflector_with_streaming_lists_survives_a_dropped_watch() {
    let server = ApiServer::builder().build().await.expect("a server");
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    for name in ["a", "b"] {
        let map = config_map(name, "k", "v");
        api.create(&PostParams::default(), &map).await.expect("made");
    }
    // The streamed list is interrupted and restarted.
    let watches = drop_watches(&server);
    let follower = Follower::start(&server, watcher::Config::default().streaming_lists());
    while watches.load(Ordering::SeqCst) < 2 {
        follower.moved.notified().await;
    }
    server.clear_faults();
    follower.holds(&["a", "b"]).await;
    let map = config_map("c", "k", "v");
    api.create(&PostParams::default(), &map).await.expect("made");
    follower.holds(&["a", "b", "c"]).await;
}
