//! Steps that do not wait for the collector.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{ListParams, WatchEvent, WatchParams};
use proptest::prelude::*;
use usher_apiserver::ApiServer;

use crate::paused::run_paused;
use crate::player::{FINALIZER, Player};
use crate::sequence::{self, Step};

/// The last seen state of an object.
#[derive(Debug, Clone, Default)]
struct Seen {
    owners: BTreeSet<String>,
    leaving: bool,
    waiting: bool,
    held: bool,
}

/// All changes of config maps in their order, and the uids that were deleted on request.
struct History {
    changes: Vec<WatchEvent<ConfigMap>>,
    asked: BTreeSet<String>,
}

/// Runs the steps with this many yields between them, and waits until the server is idle.
fn run_concurrently(steps: &[(Step, usize)]) -> History {
    run_paused(async {
        let server = ApiServer::builder().build().await.expect("a server");
        let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
        let start = maps.list(&ListParams::default()).await.expect("a list").metadata;
        let start = start.resource_version.expect("a version");
        let mut player = Player::new(maps.clone());
        let mut asked = BTreeSet::new();
        for (step, turns) in steps {
            asked.extend(player.step(step).await.expect("a response"));
            for _ in 0..*turns {
                tokio::task::yield_now().await;
            }
        }
        tokio::time::sleep(Duration::from_hours(1)).await;
        let params = WatchParams::default().timeout(1);
        let events = maps.watch(&params, &start).await.expect("a watch");
        let changes = futures_util::TryStreamExt::try_collect(events).await.expect("changes");
        History { changes, asked }
    })
}

/// Objects that were collected although an owner existed, and dangling references at the end.
fn faults(history: &History) -> Vec<String> {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let mut found = Vec::new();
    for change in &history.changes {
        let (map, gone) = match change {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => (map, false),
            WatchEvent::Deleted(map) => (map, true),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
        };
        let uid = map.metadata.uid.clone().expect("a uid");
        let now = observe(map, gone);
        let before = seen.get(&uid).cloned().unwrap_or_default();
        let leaves = (gone || now.leaving) && !before.leaving;
        let solid = |owner: &String| seen.get(owner).is_some_and(|owner| !owner.waiting);
        if leaves && !history.asked.contains(&uid) {
            if now.owners.is_empty() {
                found.push(format!("{uid} went without an owner"));
            }
            let held: Vec<&String> = now.owners.iter().filter(|owner| solid(owner)).collect();
            if !held.is_empty() {
                found.push(format!("{uid} went, and its owners {held:?} were there"));
            }
        }
        if gone {
            seen.remove(&uid);
        } else {
            // An owner in foreground deletion does not keep its dependents.
            let waiting = now.waiting || before.waiting;
            seen.insert(uid, Seen { waiting, ..now });
        }
    }
    for (uid, last) in seen.iter().filter(|(_, last)| !(last.leaving && last.held)) {
        let dangling: Vec<&String> =
            last.owners.iter().filter(|owner| !seen.contains_key(*owner)).collect();
        if last.leaving || !dangling.is_empty() {
            found.push(format!("{uid} is left over: {last:?}"));
        }
    }
    found
}

fn observe(map: &ConfigMap, gone: bool) -> Seen {
    let metadata = &map.metadata;
    let owners = metadata.owner_references.iter().flatten().map(|owner| owner.uid.clone());
    let has =
        |wanted: &str| metadata.finalizers.iter().flatten().any(|finalizer| finalizer == wanted);
    Seen {
        owners: owners.collect(),
        leaving: gone || metadata.deletion_timestamp.is_some(),
        waiting: has("foregroundDeletion"),
        held: has(FINALIZER),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    // Requirement: AK-7
    #[test]
    fn concurrent_steps_leave_no_dangling_reference(
        steps in sequence::sequences(1..=40),
        turns in prop::collection::vec(0_usize..12, 40),
    ) {
        let steps: Vec<(Step, usize)> = steps.into_iter().zip(turns).collect();
        prop_assert_eq!(faults(&run_concurrently(&steps)), Vec::<String>::new());
    }
}
