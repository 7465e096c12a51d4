//! Random ownership graphs against a model of garbage collection.
//!
//! The sequences, the model and the player are those of the example `owners`, which plays the same
//! on any cluster.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

#[path = "../../examples/owners/model.rs"]
mod model;
#[path = "../../examples/owners/player.rs"]
mod player;
#[path = "../../examples/owners/sequence.rs"]
mod sequence;

mod concurrent;
#[path = "../rig/paused.rs"]
mod paused;

use std::net::SocketAddr;
use std::time::Duration;

use kube_client::Api;
use proptest::prelude::*;
use usher_apiserver::ApiServer;

use model::{Model, Snapshot};
use paused::run_paused;
use player::{Player, Timeouts};
use sequence::Step;

/// The objects after every step, when the server is idle.
fn snapshots_after(steps: &[Step]) -> Vec<Snapshot> {
    run_paused(async {
        let server = ApiServer::builder().build().await.expect("a server");
        let mut player = Player::new(Api::default_namespaced(server.client()));
        let mut snapshots = Vec::new();
        for step in steps {
            player.step(step).await.expect("a response");
            tokio::time::sleep(Duration::from_hours(1)).await;
            snapshots.push(player.snapshot().await.expect("a list"));
        }
        snapshots
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    // Requirement: AK-7
    #[test]
    fn exactly_objects_without_owners_are_deleted(steps in sequence::sequences(1..=40)) {
        let mut model = Model::default();
        let wanted: Vec<Snapshot> = steps
            .iter()
            .map(|step| {
                model.step(step);
                model.snapshot()
            })
            .collect();
        prop_assert_eq!(snapshots_after(&steps), wanted);
    }
}

// Requirement: AK-22
#[tokio::test(flavor = "multi_thread")]
async fn an_exported_sequence_replays_as_the_model_predicts() {
    let server = ApiServer::builder().build().await.expect("a server");
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a listener");
    let kubeconfig = server.kubeconfig().expect("a kubeconfig");
    let timeouts = Timeouts { step: Duration::from_mins(1), end: Duration::ZERO };
    for seed in 0..3 {
        let written = sequence::of_seed(seed, 40).expect("a sequence");
        let exported = serde_json::to_string(&written).expect("JSON");
        let read: Vec<Step> = serde_json::from_str(&exported).expect("a sequence");
        let client = player::client(&kubeconfig).await.expect("a client");
        assert_eq!(player::compare(client, &read, timeouts).await.expect("answers"), None);
    }
}
