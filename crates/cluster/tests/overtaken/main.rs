//! Two processes with one Lease, and an API server: each is killed, the holder is suspended past
//! its term and resumed, the server is restarted and restored to an older file.
//!
//! The test starts itself again, in folders whose files say what the process shall be: the server
//! (`server`) or one that acts (`acts`). Every object has a goal. The holder of the Lease reaches it
//! by a write that compares the version it read and adds its epoch to the object's history. After
//! each disturbance every object has its goal, and no history goes back to an older epoch.
//! `USHER_SOAK_ROUNDS` says for how many rounds.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod actor;
mod cluster;
mod processes;

use std::path::Path;

use cluster::TestCluster;
use processes::{Actor, Server};

/// The default number of rounds; each has all disturbances.
const ROUNDS: usize = 2;
const OBJECTS: usize = 50;

/// What happens in a round, in this order.
#[derive(Clone, Copy, Debug)]
enum Disturbance {
    HolderKilled,
    OtherKilled,
    HolderSuspended,
    ServerRestarted,
    ServerRestored,
    HolderStopped,
}

const ALL: [Disturbance; 6] = [
    Disturbance::HolderKilled,
    Disturbance::OtherKilled,
    Disturbance::HolderSuspended,
    Disturbance::ServerRestarted,
    Disturbance::ServerRestored,
    Disturbance::HolderStopped,
];

// Requirement: KA-35
#[tokio::test(flavor = "multi_thread")]
async fn no_effect_of_an_overtaken_process_and_every_object_stepped() {
    if Path::new(processes::SERVER).exists() {
        return processes::serve().await;
    }
    if Path::new(processes::ACTS).exists() {
        return actor::act().await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    let cluster = TestCluster::connect(&server.kubeconfig()).await;
    cluster.prepare(OBJECTS).await;
    let mut actors = [0, 1].map(|number| Actor::start(folder.path(), number));
    let mut goal = 1;
    cluster.converged(OBJECTS, goal).await;
    for round in 1..=rounds() {
        for disturbance in ALL {
            goal += 1;
            cluster.set_goals(OBJECTS, goal).await;
            disturb(disturbance, (&mut server, &mut actors), (&cluster, &mut goal)).await;
            goal += 1;
            cluster.set_goals(OBJECTS, goal).await;
            let epoch = cluster.converged(OBJECTS, goal).await;
            println!("round {round}, {disturbance:?}: {OBJECTS} objects at goal, epoch {epoch}");
        }
    }
    let writes = cluster.check(OBJECTS).await;
    println!("{writes} writes, none by an overtaken process");
}

/// Carries out a disturbance, and starts again what is gone after it.
async fn disturb(
    disturbance: Disturbance,
    (server, actors): (&mut Server, &mut [Actor; 2]),
    (cluster, goal): (&TestCluster, &mut usize),
) {
    let holder = cluster.holder(actors).await;
    match disturbance {
        Disturbance::HolderKilled => {
            actors[holder].kill();
            actors[holder].start_again();
        }
        Disturbance::OtherKilled => {
            actors[1 - holder].kill();
            actors[1 - holder].start_again();
        }
        Disturbance::HolderSuspended => {
            actors[holder].suspend();
            // Its successor steps everything; then there is work again, which it must not do.
            cluster.held_by(&actors[1 - holder]).await;
            *goal += 1;
            cluster.set_goals(OBJECTS, *goal).await;
            actors[holder].resume();
        }
        Disturbance::ServerRestarted => server.restart().await,
        Disturbance::ServerRestored => {
            let older = server.copy().await;
            *goal += 1;
            cluster.set_goals(OBJECTS, *goal).await;
            cluster.converged(OBJECTS, *goal).await;
            server.restore(&older).await;
        }
        Disturbance::HolderStopped => {
            actors[holder].stop();
            actors[holder].start_again();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to soak is said to the test alone")]
fn rounds() -> usize {
    let rounds = std::env::var("USHER_SOAK_ROUNDS").ok();
    rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"))
}
