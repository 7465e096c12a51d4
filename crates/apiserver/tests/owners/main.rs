//! Graphs of owners that nobody drew by hand, against a model that knows nothing of the collector.
//!
//! The sequences, the model and the player are those of the example `owners`, which plays the same
//! on any cluster.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "../../examples/owners/model.rs"]
mod model;
#[path = "../../examples/owners/player.rs"]
mod player;
#[path = "../../examples/owners/sequence.rs"]
mod sequence;

mod hurried;
#[path = "../stage/jumping.rs"]
mod jumping;

use std::net::SocketAddr;
use std::time::Duration;

use kube_client::Api;
use proptest::prelude::*;
use usher_apiserver::ApiServer;

use jumping::jumping;
use model::{Model, World};
use player::{Patience, Player};
use sequence::Step;

/// What is there after every step when all is quiet.
fn lived(steps: &[Step]) -> Vec<World> {
    jumping(async {
        let server = ApiServer::builder().build().await.expect("a server");
        let mut player = Player::new(Api::default_namespaced(server.client()));
        let mut worlds = Vec::new();
        for step in steps {
            player.step(step).await.expect("an answer");
            tokio::time::sleep(Duration::from_hours(1)).await;
            worlds.push(player.world().await.expect("a list"));
        }
        worlds
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    // Requirement: AK-7
    #[test]
    fn exactly_those_go_whose_owners_all_went(steps in sequence::sequences(1..=40)) {
        let mut model = Model::default();
        let wanted: Vec<World> = steps
            .iter()
            .map(|step| {
                model.step(step);
                model.world()
            })
            .collect();
        prop_assert_eq!(lived(&steps), wanted);
    }
}

// Requirement: AK-22
#[tokio::test(flavor = "multi_thread")]
async fn a_sequence_that_was_exported_is_played_through_a_kubeconfig_as_the_model_says() {
    let server = ApiServer::builder().build().await.expect("a server");
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a door");
    let kubeconfig = server.kubeconfig().expect("a kubeconfig");
    let patience = Patience { step: Duration::from_mins(1), end: Duration::ZERO };
    for seed in 0..3 {
        let written = sequence::of_seed(seed, 40).expect("a sequence");
        let exported = serde_json::to_string(&written).expect("JSON");
        let read: Vec<Step> = serde_json::from_str(&exported).expect("a sequence");
        let client = player::client(&kubeconfig).await.expect("a client");
        assert_eq!(player::compare(client, &read, patience).await.expect("answers"), None);
    }
}
