//! Idle resources cost no observation and no write, however many nodes send heartbeats.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tokio::time::sleep;

use crate::caller::Caller;
use crate::fake_agents::FakeAgents;
use crate::sizes::size;
use crate::test_cluster::TestCluster;
use crate::test_server::TestServer;
use crate::together::side_by_side;

/// Concurrent provisions.
const WALKERS: u64 = 20;
/// How long nothing may change until the server counts as idle. Watch positions are saved some
/// seconds late, and PostgreSQL publishes the statistics of an idle connection up to ten seconds
/// late.
pub(crate) const SETTLED: Duration = Duration::from_secs(12);
/// Late heartbeats on a busy machine are not the subject of these tests.
pub(crate) const NEVER_LOST: &str = "mesh.missed_max=1000";

/// Rows with a due time.
const DUE: &str = "SELECT count(*) FROM queue WHERE due IS NOT NULL";
/// All row writes to any table so far.
const WRITTEN: &str = "SELECT CAST(COALESCE(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS bigint)
    FROM pg_stat_user_tables";

fn config() -> (u64, Duration) {
    let nodes = size("USHER_SOAK_RESTING", 20);
    (nodes, Duration::from_secs(size("USHER_SOAK_REST_SECONDS", 3)))
}

/// A heartbeat interval that this machine can sustain for this many nodes.
fn heartbeat(nodes: u64) -> String {
    format!("mesh.heartbeat={}ms", nodes.max(40) * 5)
}

/// Provisions this many nodes until they are Ready.
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

/// Size and modification time of each database file.
fn written(data: &Path) -> Vec<(u64, SystemTime)> {
    let files = ["usher.db", "usher.db-wal"].map(|it| std::fs::metadata(data.join(it)).unwrap());
    files.map(|it| (it.len(), it.modified().unwrap())).to_vec()
}

/// Waits until a value is unchanged for this long.
pub(crate) async fn until_settled<T: PartialEq + std::fmt::Debug>(
    settled: Duration,
    observe: impl AsyncFn() -> T,
) -> T {
    let begun = Instant::now();
    let mut before = observe().await;
    loop {
        sleep(settled).await;
        let now = observe().await;
        if now == before {
            return now;
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "never idle: {before:?} {now:?}");
        before = now;
    }
}

/// Red by: a timer in Ready, or a heartbeat that is written.
// Requirement: W-11
#[tokio::test]
async fn many_live_nodes_cost_no_observation_and_no_write() {
    let (nodes, rest) = config();
    let server = TestServer::up(&["local.agent=external", NEVER_LOST, &heartbeat(nodes)]).await;
    let _agents = FakeAgents::gather(&server.data());
    let caller = server.caller();
    fill(caller, nodes).await;
    let observe = async || (caller.counters().await, written(&server.data()));
    let before = until_settled(SETTLED, observe).await;
    assert!(before.0.contains_key("usher_world_observations_total"), "{before:?}");
    sleep(rest).await;
    assert_eq!(observe().await, before, "{nodes} nodes, idle for {rest:?}");
    println!("{nodes} nodes idle for {rest:?}: no observation, no write");
}

/// Red by: a row that is due although nothing will change, or a write that no counter counts.
// Requirement: W-11
#[tokio::test]
async fn many_live_nodes_cause_no_due_row_and_no_table_write() {
    let (nodes, rest) = config();
    let Some(cluster) = TestCluster::open(1, &[NEVER_LOST, &heartbeat(nodes)]).await else {
        return;
    };
    fill(cluster.caller(), nodes).await;
    let observe = async || {
        let mut counters: Vec<BTreeMap<String, u64>> = Vec::new();
        for server in &cluster.servers {
            counters.push(server.caller().counters().await);
        }
        (counters, cluster.number(WRITTEN).await, cluster.number(DUE).await)
    };
    let before = until_settled(SETTLED, observe).await;
    assert_eq!(before.2, 0, "no row has a due time");
    sleep(rest).await;
    assert_eq!(observe().await, before, "{nodes} nodes, idle for {rest:?}");
    println!("{nodes} nodes idle on PostgreSQL for {rest:?}: no observation, no write");
}
