//! Drains through a provider in another process, whose operations end long after they are accepted.

use serde_json::Value;
use tokio::time::sleep;

use crate::caller::SOON;
use crate::pair::{Fake, Pair};

const FAKE: Fake = Fake { machines: 8, dwell: "200ms:600ms" };

async fn grown(cluster: &str, machines: usize) -> Pair {
    let mut pair = Pair::new(FAKE);
    pair.start_server(None);
    pair.until("Speculative", FAKE.machines).await;
    pair.need(cluster, machines, 0).await;
    pair.until("Configured", machines).await;
    pair
}

fn bound<'a>(machines: &'a [Value], phase: &str) -> Vec<&'a str> {
    let there = machines.iter().filter(|it| it["phase"] == phase);
    there.map(|it| it["cluster"].as_str().unwrap_or("none")).collect()
}

/// Polls until a condition holds; in every poll a draining machine is bound to one of these
/// clusters, and an idle machine to none.
async fn until(pair: &mut Pair, clusters: &[&str], is_so: impl Fn(&[Value]) -> bool) {
    for _ in 0..6_000 {
        let machines = pair.machines().await;
        let draining = bound(&machines, "Draining");
        assert!(draining.iter().all(|it| clusters.contains(it)), "{draining:?}");
        assert!(bound(&machines, "Idle").iter().all(|it| *it == "none"), "{machines:?}");
        if is_so(&machines) {
            return;
        }
        sleep(SOON).await;
    }
    panic!("it never came to that: {:?}", pair.machines().await);
}

/// The clusters that machines were drained from, in order.
async fn drained(pair: &Pair) -> Vec<String> {
    let events = pair.caller.list("/v1/events").await;
    let moves = events.iter().map(|it| &it["data"]).filter(|it| it["to"] == "Draining");
    moves.map(|it| it["cluster"].as_str().unwrap_or("none").to_owned()).collect()
}

async fn no_transition_error(pair: &Pair) {
    let mut counted = pair.caller.counters().await;
    counted.retain(|it, count| it.contains("action_execute_outcomes_total") && *count > 0);
    assert!(counted.keys().any(|it| it.contains("success")), "{counted:?}");
    assert!(!counted.keys().any(|it| it.contains("transition_error")), "{counted:?}");
}

/// Red by: a binding that is cleared by the acknowledgement of a drain.
// Requirement: F-75
#[tokio::test]
async fn capacity_shrinks_when_the_demand_does() {
    let mut pair = grown("a", 8).await;
    pair.need("a", 2, 0).await;
    until(&mut pair, &["a"], |it| {
        bound(it, "Configured").len() == 2 && bound(it, "Draining").is_empty()
    })
    .await;
    assert_eq!(drained(&pair).await, ["a"; 6]);
    no_transition_error(&pair).await;
}

/// Red by: a machine that joins another cluster before it has left its own.
// Requirement: F-75
#[tokio::test]
async fn a_more_urgent_cluster_gets_machines_after_their_drain() {
    let mut pair = grown("low", 8).await;
    pair.need("high", 3, 1_000_000).await;
    until(&mut pair, &["low"], |it| {
        bound(it, "Configured").iter().filter(|it| **it == "high").count() == 3
    })
    .await;
    assert_eq!(drained(&pair).await, ["low"; 3]);
    no_transition_error(&pair).await;
}
