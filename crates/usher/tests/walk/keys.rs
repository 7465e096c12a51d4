//! The server key: lost, damaged, exchanged and rotated while nodes are alive.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::task::JoinSet;
use tokio::time::sleep;
use usher_store::Place;

use crate::caller::{Caller, SOON};
use crate::fake_agents::FakeAgents;
use crate::presence::kill_node;
use crate::rest::NEVER_LOST;
use crate::test_server::{TIMEOUT, TestServer, furnish};
use crate::together::side_by_side;

const NODES: usize = 20;
const SETTINGS: [&str; 2] = ["local.agent=external", NEVER_LOST];

fn key_file(server: &TestServer) -> PathBuf {
    server.data().join("server.key")
}

/// Writes a file as private as it was.
fn write(path: &PathBuf, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

async fn keys(caller: &Caller) -> Vec<Value> {
    let keys = caller.insist("GET", "/v1/keys", None).await;
    keys["items"].as_array().unwrap().clone()
}

async fn current(caller: &Caller) -> String {
    let all = keys(caller).await;
    let current = all.iter().find(|it| it["state"] == "current").unwrap();
    current["id"].as_str().unwrap().to_owned()
}

/// Provisions the nodes, all Ready; their ids.
async fn provisioned(caller: &Caller) -> Vec<String> {
    let walks = (0..NODES).map(|number| async move {
        let id = caller.provision(&format!("node-{number}")).await;
        caller.until_phase(&id, "Ready").await;
        id
    });
    side_by_side(walks).await
}

/// Waits until every node is live, as this server sees it.
async fn until_live(caller: &Caller) {
    let begun = Instant::now();
    loop {
        let nodes = caller.list("/v1/nodes").await;
        if nodes.len() == NODES && nodes.iter().all(|it| it["liveness"] == "live") {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{nodes:?}");
        sleep(SOON).await;
    }
}

/// No advice would destroy a healthy node.
async fn advises_no_replacement(caller: &Caller, ids: &[String]) {
    for id in ids {
        let why = caller.insist("GET", &format!("/v1/resources/{id}/why"), None).await;
        assert!(!why["advice"].to_string().contains("--replace"), "{why}");
    }
}

fn is_refused(server: &TestServer, key: &str, why: &str) {
    let verb = if server.database().is_some() { "serve" } else { "up" };
    let mut command = server.command(verb);
    command.envs(server.database().map(|url| ("USHER_DATABASE_URL", url))).stdout(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    let sentence = said.lines().last().unwrap();
    let file = key_file(server).display().to_string();
    for part in [&format!("usher: cannot use the key file \"{file}\": {why}")[..], key, "restore"] {
        assert!(sentence.contains(part), "{part}: {said}");
    }
}

/// Red by: a server that replaces a lost key, or starts with another one: every node is refused,
/// is lost, and `why` advises to replace it.
// Requirement: E-21
#[tokio::test]
async fn a_lost_damaged_or_foreign_key_stops_the_start_and_loses_no_node() {
    let mut server = TestServer::up(&SETTINGS).await;
    let _agents = FakeAgents::gather(&server.data());
    let caller = server.caller().clone();
    let ids = provisioned(&caller).await;
    let (key, file) = (current(&caller).await, key_file(&server));
    assert_eq!(server.stop().await, Some(0));
    let kept = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    is_refused(&server, &key, "it does not exist");
    assert!(!file.exists(), "nothing was created");
    for (text, why) in [
        ("", "it has no key"),
        (&kept[..40], "line 1 is not a key of 64 hexadecimal digits"),
        (&"ab".repeat(32), &format!("it lacks key {key}")),
    ] {
        write(&file, text);
        is_refused(&server, &key, why);
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "nothing was written");
    }
    write(&file, &kept);
    server.start(None);
    assert!(server.until_ready().await);
    until_live(&caller).await;
    advises_no_replacement(&caller, &ids).await;
    assert_eq!(server.number("SELECT COUNT(*) FROM peers WHERE lost_since IS NOT NULL").await, 0);
    assert!(!server.said().contains("node lost"), "{}", server.said());
}

/// Waits until one key is current and the other retired.
async fn until_retired(caller: &Caller) {
    let begun = Instant::now();
    loop {
        let all = keys(caller).await;
        let states: Vec<_> = all.iter().map(|it| it["state"].as_str().unwrap()).collect();
        if states == ["retired", "current"] {
            assert_eq!((&all[0]["tokens"], &all[0]["nodes"]), (&json!(0), &json!(0)));
            assert_eq!((&all[0]["removable"], &all[1]["removable"]), (&json!(true), &json!(false)));
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "{all:?}");
        sleep(SOON).await;
    }
}

/// Red by: a node that is refused after the rotation, or an old key that is needed for ever.
// Requirement: E-22
#[tokio::test]
async fn a_rotated_key_reaches_every_node_and_the_old_one_is_removed() {
    let mut server = TestServer::up(&SETTINGS).await;
    let _agents = FakeAgents::gather(&server.data());
    let caller = server.caller().clone();
    let ids = provisioned(&caller).await;
    let (old, file) = (current(&caller).await, key_file(&server));
    let (code, said) = server.usher(&["key", "rotate", "-o", "json"]);
    assert_eq!(code, Some(0), "{said}");
    let new = current(&caller).await;
    assert_ne!(new, old);
    let stale = server.ask("POST", "/v1/keys/rotate", Some(&json!({ "from": old }))).await;
    assert_eq!(stale.map(|(status, it)| (status, it["code"].clone())).unwrap().0, 409);
    until_retired(&caller).await;
    until_live(&caller).await;
    let audit = caller.list("/v1/audit").await;
    let rotated: Vec<_> = audit.iter().filter(|it| it["action"] == "key.rotate").collect();
    assert_eq!((rotated.len(), &rotated[0]["subject"]), (1, &json!(new)));
    let lines = fs::read_to_string(&file).unwrap();
    let (_, line) = lines.trim().split_once('\n').unwrap();
    assert_eq!(server.stop().await, Some(0));
    fs::write(&file, line).unwrap();
    server.start(None);
    assert!(server.until_ready().await, "a removed retired key is no error: {}", server.said());
    until_live(&caller).await;
    advises_no_replacement(&caller, &ids).await;
    assert!(!server.said().contains("node lost"), "{}", server.said());
    let next = caller.provision("after").await;
    caller.until_phase(&next, "Ready").await;
    let (_, shown) = server.usher(&["key", "show"]);
    assert!(shown.contains("removed") && shown.contains("held"), "{shown}");
}

/// Red by: a refusal that names neither the dead node nor a way on.
// Requirement: E-22
#[tokio::test]
async fn a_rotation_that_a_lost_node_blocks_names_it_and_the_way_on() {
    let mut server = TestServer::up(&["local.agent=external", "mesh.missed_max=5"]).await;
    let agents = FakeAgents::gather(&server.data());
    let caller = server.caller().clone();
    let mut ids = Vec::new();
    for name in ["dead", "live"] {
        let id = caller.provision(name).await;
        caller.until_phase(&id, "Ready").await;
        ids.push(id);
    }
    kill_node(&agents, &ids[0]);
    server.until_reason(&ids[0], "NodeLost").await;
    assert_eq!(server.usher(&["key", "rotate"]).0, Some(0));
    let begun = Instant::now();
    while keys(&caller).await[0]["nodes"] != 1 {
        assert!(begun.elapsed() < TIMEOUT, "the live node never took the new key");
        sleep(SOON).await;
    }
    let (code, said) = server.usher(&["key", "rotate"]);
    assert_eq!(code, Some(3), "{said}");
    for part in ["key_in_use", "lost nodes (\"dead\":", "`usher retry dead --replace`"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("other nodes") && !said.contains("live"), "{said}");
    assert_eq!(server.usher(&["retry", "dead", "--replace"]).0, Some(0));
    until_retired(&caller).await;
    assert_eq!(server.usher(&["key", "rotate"]).0, Some(0));
}

/// Red by: a key that is recorded before it is in the file, or a second key for one installation.
// Requirement: E-21
#[tokio::test]
async fn a_first_start_or_a_rotation_survives_a_kill() {
    for point in ["key-written", "key-recorded"] {
        let mut server = TestServer::new(&[]);
        server.start(Some(point));
        assert!(!server.until_ready().await, "{point} was not passed");
        let first = fs::read_to_string(key_file(&server)).unwrap();
        server.start(None);
        assert!(server.until_ready().await, "{}", server.said());
        assert_eq!(fs::read_to_string(key_file(&server)).unwrap(), first, "{point}");
        let caller = server.caller().clone();
        let id = server.provision("node").await;
        server.until_phase(&id, "Ready").await;
        let old = current(&caller).await;
        assert_eq!(server.stop().await, Some(0));
        server.start(Some(point));
        server.until_ready().await;
        let body = json!({ "from": old });
        assert_eq!(server.ask("POST", "/v1/keys/rotate", Some(&body)).await, None, "{point}");
        server.until_ended().await;
        let lines = fs::read_to_string(key_file(&server)).unwrap();
        assert_eq!(lines.lines().count(), 2, "{point}");
        server.start(None);
        assert!(server.until_ready().await, "{}", server.said());
        if current(&caller).await == old {
            caller.insist("POST", "/v1/keys/rotate", Some(&body)).await;
        }
        assert_eq!(fs::read_to_string(key_file(&server)).unwrap(), lines, "no third key");
        until_retired(&caller).await;
        server.deprovision(&id).await;
        server.until_phase(&id, "Deleted").await;
    }
}

/// Red by: a server that answers 401 for a key that it lacks, records its nodes as lost, or stays
/// ready and issues tokens with the old key.
// Requirement: E-23
#[tokio::test]
async fn a_server_that_lacks_a_rotated_key_is_not_ready_and_loses_no_node() {
    let Some(database) = usher_pgtest::empty().await else { return };
    furnish(&Place::Postgres(database.url())).await;
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let [one, other] = ["one.key", "other.key"].map(|it| dir.path().join(it));
    let with = |file: &PathBuf| {
        let key = format!("key.file={}", file.display());
        TestServer::within(&dir, Some(database.url()), &[SETTINGS[0], SETTINGS[1], &key])
    };
    let mut here = with(&one);
    here.start(None);
    assert!(here.until_ready().await, "{}", here.said());
    fs::copy(&one, &other).unwrap();
    let mut there = with(&other);
    there.start(None);
    assert!(there.until_ready().await, "{}", there.said());
    let _agents = FakeAgents::gather(&here.data());
    let (caller, beside) = (here.caller().clone(), there.caller().clone());
    let ids = provisioned(&caller).await;
    let old = current(&caller).await;
    caller.insist("POST", "/v1/keys/rotate", Some(&json!({ "from": old }))).await;
    let new = current(&caller).await;
    let (status, refused) = there.ask("GET", "/readyz", None).await.unwrap();
    assert_eq!((status, &refused["detail"]), (503, &json!("unavailable: key does not answer")));
    let node = caller.list("/v1/nodes").await[0]["id"].as_str().unwrap().to_owned();
    let beat = json!({"acknowledged": 0, "in_flight": 0, "draining": false, "agent_version": "1"});
    let path = format!("/v1/nodes/{node}/heartbeat");
    let sent = there.ask_as("uns_of-another-key", ("POST", &path), Some(&beat)).await.unwrap();
    assert_eq!((sent.0, &sent.1["code"]), (503, &json!("key_missing")));
    let why = beside.insist("GET", &format!("/v1/resources/{}/why", ids[0]), None).await;
    assert!(why["advice"][0]["symptom"].to_string().contains(&new), "{why}");
    advises_no_replacement(&beside, &ids).await;
    fs::copy(&one, &other).unwrap();
    assert!(there.until_ready().await);
    let sent = there.ask_as("uns_of-another-key", ("POST", &path), Some(&beat)).await.unwrap();
    assert_eq!((sent.0, &sent.1["code"]), (401, &json!("unauthenticated")));
    until_retired(&caller).await;
    until_live(&caller).await;
    for server in [&here, &there] {
        assert!(!server.said().contains("node lost"), "{}", server.said());
    }
}

/// Red by: a mounted key file that a rotation cannot change, and no way to rotate.
// Requirement: E-22
#[tokio::test]
async fn a_key_that_was_added_to_the_file_is_rotated_to() {
    let mut server = TestServer::up(&[]).await;
    let caller = server.caller().clone();
    let (old, file) = (current(&caller).await, key_file(&server));
    let lines = fs::read_to_string(&file).unwrap() + &"ab".repeat(32) + "\n";
    fs::write(&file, &lines).unwrap();
    caller.insist("POST", "/v1/keys/rotate", Some(&json!({ "from": old }))).await;
    assert_eq!(fs::read_to_string(&file).unwrap(), lines, "no key was created");
    until_retired(&caller).await;
    fs::write(&file, "broken").unwrap();
    let from = json!({ "from": current(&caller).await });
    let refused = server.ask("POST", "/v1/keys/rotate", Some(&from)).await.unwrap();
    assert_eq!((refused.0, &refused.1["code"]), (503, &json!("key_missing")));
    fs::write(&file, &lines).unwrap();
    assert_eq!(server.stop().await, Some(0));
}

/// Red by: a receipt that anyone could write.
// Requirement: E-24
#[tokio::test]
async fn only_a_receipt_that_was_issued_here_is_genuine() {
    let mut server = TestServer::up(&[]).await;
    let id = server.provision("node").await;
    server.until_phase(&id, "Ready").await;
    let (code, receipt) = server.usher(&["receipt", "node", "-o", "json"]);
    assert_eq!(code, Some(0), "{receipt}");
    let path = server.data().join("receipt.json");
    let verify = |text: &str| {
        fs::write(&path, text).unwrap();
        server.usher(&["receipt", "--verify", path.to_str().unwrap()])
    };
    assert_eq!(verify(&receipt), (Some(0), "the receipt is genuine\n".to_owned()));
    let (code, said) = verify(&receipt.replace("\"seen\"", "\"gone\""));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("receipt_invalid"), "{said}");
    let mut other: Value = serde_json::from_str(&receipt).unwrap();
    other["key_id"] = json!("0123456789abcdef");
    assert_eq!(verify(&other.to_string()).0, Some(3));
}

/// Locks a table against every read until it is closed.
async fn lock(url: &str, table: &str) -> PgConnection {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let sql = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE");
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
    conn
}

/// Red by: a guessed secret that costs a read of its node, or guesses that take every connection to
/// the database.
// Requirement: M-21
#[tokio::test]
async fn guessed_node_secrets_hold_up_no_other_call() {
    const GUESSES: usize = 100;
    let Some(server) = TestServer::serve(&["local.agent=external"]).await else { return };
    let (caller, url) = (server.caller().clone(), server.database().unwrap());
    let guess = async |caller: Caller| {
        let path = format!("/v1/nodes/{}/heartbeat", uuid::Uuid::now_v7());
        let (status, body) = caller.ask_as("uns_guess", ("POST", &path), Some(&json!({}))).await?;
        Some((status, body["code"].as_str()?.to_owned()))
    };
    let answer = |status, code: &str| Some((status, code.to_owned()));
    let peers = lock(url, "peers").await;
    assert_eq!(guess(caller.clone()).await, answer(401, "unauthenticated"));
    peers.close().await.unwrap();
    let mut keys = lock(url, "server_keys").await;
    let mut guesses: JoinSet<_> = (0..GUESSES).map(|_| guess(caller.clone())).collect();
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND wait_event_type = 'Lock' AND query LIKE '%server_keys%'";
    while guesses.len() > 4 {
        assert_eq!(guesses.join_next().await.unwrap().unwrap(), answer(503, "unavailable"));
        let waiting: i64 = sqlx::query_scalar(waiting).fetch_one(&mut keys).await.unwrap();
        // The server reads the keys for itself, too. Its pool has twice as many connections.
        assert!(waiting <= 8, "{waiting} guesses hold a connection");
    }
    assert_eq!(caller.ask("GET", "/v1/projects", None).await.unwrap().0, 200);
    keys.close().await.unwrap();
    guesses.join_all().await;
    assert_eq!(guess(caller.clone()).await, answer(401, "unauthenticated"), "no permit is lost");
}
