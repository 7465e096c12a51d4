//! Requests, output and exit codes of the fleet commands.

use serde_json::{Value, json};

use crate::server::Server;

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const OTHER: &str = "01890a5d-ac96-774b-bcce-b302099a8058";
const AT: &str = "2026-01-01T00:00:00.000000Z";

fn list(items: &[Value]) -> Value {
    json!({"items": items, "next_cursor": null})
}

fn machine(id: &str, provider: &str) -> Value {
    json!({
        "id": id, "name": "m-1", "provider": provider, "shard": "s", "phase": "Draining",
        "reason": "WaitingForDrain", "cluster": "a", "wanted": "Unbound", "wanted_cluster": null,
        "holder": null, "disputed_cluster": null, "host": "h-1", "command": "None", "error": null,
        "instance_type": "small", "zone": "z", "capacity_type": "spot", "price_per_hour": 0.5,
        "phase_since": AT, "version": 3,
    })
}

fn shard(id: &str, switch: &str) -> Value {
    json!({"id": id, "epoch": 7, "held_until": AT, "switch": switch, "paused_at": null,
        "dry_run_at": null})
}

fn demand_outcome(judged: &str, needs: usize) -> Value {
    let need = json!({"aggregate": {"cpu": "4"}, "priority": 5});
    json!({"judged": judged, "demand": {"cluster": "a", "shard": "s", "version": 2,
        "received_at": AT, "held": judged == "Held", "needs": vec![need; needs]}})
}

fn named(name: &str) -> String {
    format!("GET /v1/fleet/machines?gone=true&name={name}")
}

#[tokio::test]
async fn needs_come_from_flags_or_a_file_and_replace_the_previous_ones() {
    let server = Server::start().await;
    server.on("PUT /v1/fleet/demand/a", 200, &demand_outcome("Accepted", 1));
    let left = server
        .usher("fleet demand a --need cpu=64,min.cpu=4,in.zone=x|y,priority=5 --need gpu=2")
        .await;
    assert_eq!((left.code, left.said.as_str()), (Some(0), "a has 1 needs, served by shard s\n"));
    let body = &server.asked()[0].body;
    assert_eq!(body["needs"][0]["aggregate"], json!({"cpu": "64"}));
    assert_eq!(body["needs"][0]["min_unit"], json!({"cpu": "4"}));
    let asked = json!([{"key": "zone", "operator": "In", "values": ["x", "y"]}]);
    assert_eq!(body["needs"][0]["requirements"], asked);
    assert_eq!(body["needs"][1]["aggregate"], json!({"gpu": "2"}));
    assert_eq!(body["shard"], Value::Null);
    let file = server.folder().join("needs.json");
    std::fs::write(&file, json!({"needs": [{"aggregate": {"cpu": "1"}}]}).to_string()).unwrap();
    let typed = format!("fleet demand a --shard t -f {}", file.display());
    assert_eq!(server.usher(&typed).await.code, Some(0));
    let body = server.asked()[1].body.clone();
    assert_eq!((&body["shard"], &body["needs"][0]["aggregate"]["cpu"]), (&json!("t"), &json!("1")));
}

/// Red by: a typing error that becomes a demand for nothing.
// Requirement: F-54
#[tokio::test]
async fn without_needs_on_the_command_line_nothing_is_sent() {
    let server = Server::start().await;
    server.on("GET /v1/fleet/demand/a", 200, &demand_outcome("Accepted", 2)["demand"]).on(
        "PUT /v1/fleet/demand/a",
        200,
        &demand_outcome("Held", 2),
    );
    let shown = server.usher("fleet demand a").await;
    assert_eq!(shown.code, Some(0));
    assert!(shown.said.contains("cpu=4"), "{shown:?}");
    assert_eq!(server.asked().len(), 1, "that was a read");
    for wrong in
        ["fleet demand a --need cpu", "fleet demand a -f /nowhere", "fleet demand --nothing"]
    {
        assert_eq!(server.usher(wrong).await.code, Some(2), "{wrong}");
    }
    assert_eq!(server.asked().len(), 1);
    let held = server.usher("fleet demand a --nothing").await;
    assert_eq!(held.code, Some(0));
    assert!(held.said.starts_with("held: the needs of a fell suddenly"), "{held:?}");
    assert_eq!(server.asked()[1].body, json!({"shard": null, "needs": []}));
}

// Requirement: F-57
#[tokio::test]
async fn why_prints_reason_blockers_and_advice_of_a_machine() {
    let server = Server::start().await;
    let why = json!({"machine": machine(ID, "p"), "summary": "it is leaving cluster a",
        "blockers": [{"kind": "shard", "name": "s", "since": null, "text": "it is paused"}],
        "advice": [{"symptom": "S", "diagnosis": "D", "remedy": "R"}], "deadline": AT});
    server.on(&named("m-1"), 200, &list(&[machine(ID, "p")])).on(
        &format!("GET /v1/fleet/machines/{ID}/why"),
        200,
        &why,
    );
    let left = server.usher("why machine/m-1").await;
    assert_eq!(left.code, Some(0), "{left:?}");
    for part in
        ["m-1 is Draining (WaitingForDrain)", "it is leaving", "shard \"s\": it is paused", "R\n"]
    {
        assert!(left.said.contains(part), "{part}: {left:?}");
    }
    assert_eq!(server.usher("why machine/m-1 -o json").await.json(), why);
}

#[tokio::test]
async fn a_machine_name_of_two_providers_is_ambiguous() {
    let server = Server::start().await;
    server.on(&named("m-1"), 200, &list(&[machine(ID, "p"), machine(OTHER, "q")])).on(
        &named("m-2"),
        200,
        &list(&[]),
    );
    let both = server.usher("why machine/m-1").await;
    assert_eq!(both.code, Some(2));
    assert!(both.complained.contains(ID) && both.complained.contains(OTHER), "{both:?}");
    assert_eq!(server.usher("get machines m-2").await.code, Some(4));
}

// Requirement: F-55
#[tokio::test]
async fn pause_resume_and_dry_run_default_to_the_only_shard() {
    let server = Server::start().await;
    server
        .on("GET /v1/fleet/shards", 200, &list(&[shard("s", "Run")]))
        .on("POST /v1/fleet/shards/s/pause", 200, &shard("s", "Paused"))
        .on("POST /v1/fleet/shards/t/resume", 200, &shard("t", "Run"))
        .on("PUT /v1/fleet/shards/s/dry-run", 200, &shard("s", "DryRun"));
    let paused = server.usher("fleet pause").await;
    assert_eq!(paused.said, "shard s is paused: no new operation starts\n");
    let resumed = server.usher("fleet resume --shard t").await;
    assert_eq!(resumed.said, "shard t is running: plans are executed\n");
    let dry = server.usher("fleet dry-run on").await;
    assert_eq!(dry.said, "shard s is in a dry run: plans are only logged\n");
    assert_eq!(server.asked().last().unwrap().body, json!({"on": true}));
    assert_eq!(server.usher("fleet dry-run perhaps").await.code, Some(2));
    let several = Server::start().await;
    several.on("GET /v1/fleet/shards", 200, &list(&[shard("s", "Run"), shard("t", "Run")]));
    assert_eq!(several.usher("fleet pause").await.code, Some(2), "it is not guessed");
    let none = Server::start().await;
    none.on("GET /v1/fleet/shards", 200, &list(&[]));
    assert_eq!(none.usher("fleet pause").await.code, Some(4));
}

// Requirement: F-56
#[tokio::test]
async fn a_plan_is_printed_with_what_holds_it_back() {
    let server = Server::start().await;
    let plan = json!({
        "shard": shard("s", "Paused"), "machines": 3, "broken": 1,
        "aims": [{"machine": ID, "name": "m-1", "phase": "Idle", "wanted": "Bind", "cluster": "a",
            "cause": "Assign", "grace_seconds": 600}],
        "aims_total": 4, "outcomes": {"Assigned": 1, "Satisfied": 0},
        "needs": [{"cluster": "a", "place": 0, "outcome": "Assigned",
            "need": {"aggregate": {"cpu": "4"}}}],
        "clusters": [{"cluster": "b", "surplus": 2, "reclaimed": 1, "held_back": "ReclaimCap",
            "refused": []}],
        "held_back": ["Paused"],
    });
    server.on("GET /v1/fleet/shards", 200, &list(&[shard("s", "Paused")])).on(
        "GET /v1/fleet/shards/s/plan",
        200,
        &plan,
    );
    let left = server.usher("fleet plan").await;
    assert_eq!(left.code, Some(0), "{left:?}");
    for part in [
        "shard s has 3 machines",
        "1 rows cannot be decoded",
        "Held back by Paused",
        "Needs: 1 Assigned\n",
        "cpu=4",
        "ReclaimCap",
        "Assign\n",
        "and 3 more",
    ] {
        assert!(left.said.contains(part), "{part}: {}", left.said);
    }
}

// Requirement: F-47
#[tokio::test]
async fn machines_and_shards_are_listed_and_conflicts_settled() {
    let server = Server::start().await;
    server
        .on("GET /v1/fleet/machines?gone=false&limit=500", 200, &list(&[machine(ID, "p")]))
        .on("GET /v1/fleet/shards?limit=500", 200, &list(&[shard("s", "Run")]))
        .on(&format!("GET /v1/fleet/machines/{ID}"), 200, &machine(ID, "p"))
        .on(&format!("POST /v1/fleet/machines/{ID}/settle"), 200, &machine(ID, "p"));
    let listed = server.usher("get machines").await;
    assert!(listed.said.contains("WaitingForDrain") && listed.said.contains("small"), "{listed:?}");
    assert!(server.usher("fleet shards").await.said.contains("Run"));
    let settled = server.usher(&format!("fleet settle {ID} --drain")).await;
    assert_eq!((settled.code, settled.said.as_str()), (Some(0), "m-1 is drained from a\n"));
    assert_eq!(server.asked().last().unwrap().body, json!({"settlement": "drain"}));
    for wrong in ["fleet settle m-1", "fleet settle m-1 --adopt --drain"] {
        assert_eq!(server.usher(wrong).await.code, Some(2), "{wrong}");
    }
}
