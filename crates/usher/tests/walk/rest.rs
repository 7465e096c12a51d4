//! At rest nothing is looked at and nothing is written, however many nodes say that they live.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::sleep;

use crate::caller::Caller;
use crate::crowd::Crowd;
use crate::estate::Estate;
use crate::figures::asked;
use crate::house::House;
use crate::together::side_by_side;

/// How many nodes come at a time.
const WALKERS: u64 = 20;
/// How long nothing may have changed until it is called rest. How far the worlds have come is
/// written down some seconds after they came there, and what PostgreSQL counts of a connection
/// that rests is told up to ten seconds later.
pub(crate) const SETTLED: Duration = Duration::from_secs(12);
/// A machine so busy that nodes call late is not what is looked for here.
pub(crate) const NEVER_LOST: &str = "mesh.missed_max=1000";

/// Rows that will be looked at by time.
const DUE: &str = "SELECT count(*) FROM queue WHERE due IS NOT NULL";
/// Everything that was ever written to any table.
const WRITTEN: &str = "SELECT CAST(COALESCE(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS bigint)
    FROM pg_stat_user_tables";

fn figures() -> (u64, Duration) {
    let nodes = asked("USHER_SOAK_RESTING", 20);
    (nodes, Duration::from_secs(asked("USHER_SOAK_REST_SECONDS", 3)))
}

/// So many nodes call so often that the machine has time for it.
fn heartbeat(nodes: u64) -> String {
    format!("mesh.heartbeat={}ms", nodes.max(40) * 5)
}

/// So many nodes that are Ready.
async fn fill(caller: &Caller, count: u64) {
    let share = |walker| (0..count).filter(move |it| it % WALKERS == walker);
    let walkers = (0..WALKERS).map(|walker| async move {
        for number in share(walker) {
            let id = caller.provision(&format!("node-{number}")).await;
            caller.until_phase(&id, "Ready").await;
        }
    });
    side_by_side(walkers).await;
}

/// When and to which size each file of the database was last written.
fn written(data: &Path) -> Vec<(u64, SystemTime)> {
    let files = ["usher.db", "usher.db-wal"].map(|it| std::fs::metadata(data.join(it)).unwrap());
    files.map(|it| (it.len(), it.modified().unwrap())).to_vec()
}

/// Waits until this stays as it is for so long.
pub(crate) async fn until_settled<T: PartialEq + std::fmt::Debug>(
    settled: Duration,
    look: impl AsyncFn() -> T,
) -> T {
    let begun = Instant::now();
    let mut before = look().await;
    loop {
        sleep(settled).await;
        let now = look().await;
        if now == before {
            return now;
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "never at rest: {before:?} {now:?}");
        before = now;
    }
}

/// Red by: a timer in Ready, or a sign of life that is written.
// Requirement: W-11
#[tokio::test]
async fn many_nodes_that_live_cost_no_look_and_no_write() {
    let (nodes, rest) = figures();
    let house = House::up(&["local.agent=external", NEVER_LOST, &heartbeat(nodes)]).await;
    let _crowd = Crowd::gather(&house.data());
    let caller = house.caller();
    fill(caller, nodes).await;
    let look = async || (caller.counters().await, written(&house.data()));
    let before = until_settled(SETTLED, look).await;
    assert!(before.0.contains_key("usher_world_observations_total"), "{before:?}");
    sleep(rest).await;
    assert_eq!(look().await, before, "{nodes} nodes lived for {rest:?}");
    println!("{nodes} nodes at rest for {rest:?}: no look, no write");
}

/// Red by: a row that is due although nothing will change, or a write that no counter tells.
// Requirement: W-11
#[tokio::test]
async fn many_nodes_that_live_leave_the_queue_and_every_table_alone() {
    let (nodes, rest) = figures();
    let Some(estate) = Estate::open(1, &[NEVER_LOST, &heartbeat(nodes)]).await else { return };
    fill(estate.caller(), nodes).await;
    let look = async || {
        let mut counters: Vec<BTreeMap<String, u64>> = Vec::new();
        for house in &estate.houses {
            counters.push(house.caller().counters().await);
        }
        (counters, estate.number(WRITTEN).await, estate.number(DUE).await)
    };
    let before = until_settled(SETTLED, look).await;
    assert_eq!(before.2, 0, "nobody is looked at by time");
    sleep(rest).await;
    assert_eq!(look().await, before, "{nodes} nodes lived for {rest:?}");
    println!("{nodes} nodes at rest on PostgreSQL for {rest:?}: no look, no write");
}
