//! Machines, shards and demand over HTTP.

use serde_json::json;
use usher_api::views::Subject;

use crate::fake::{demo, machine};
use crate::test_api::{TestApi, refused};

#[tokio::test]
async fn a_machine_is_found_by_its_name_cluster_and_phase() {
    let api = TestApi::new();
    let count = async |query: &str| {
        let listed = api.get(&format!("/v1/fleet/machines?{query}")).await.json();
        listed["items"].as_array().unwrap().len()
    };
    for query in ["", "name=m-1", "cluster=a", "phase=Configured", "shard=s", "gone=true"] {
        assert_eq!(count(query).await, 1, "{query}");
    }
    for query in ["name=m-2", "cluster=b", "phase=Idle", "shard=t"] {
        assert_eq!(count(query).await, 0, "{query}");
    }
    let bad = api.get("/v1/fleet/machines?phase=Asleep").await;
    assert_eq!(bad.refusal(), refused(400, "query_invalid"));
    let bad = api.get("/v1/fleet/machines?cluster=%20a").await;
    assert_eq!(bad.refusal(), refused(422, "fleet_name"));
    let one = api.get(&format!("/v1/fleet/machines/{}", machine())).await.json();
    let shown = json!({
        "id": machine().to_string(), "name": "m-1", "provider": "p", "shard": "s",
        "phase": "Configured", "reason": "AsDeclared", "cluster": "a", "wanted": "Bind",
        "wanted_cluster": "a", "holder": null, "disputed_cluster": null, "host": "h-1",
        "command": "None", "error": null, "instance_type": "small", "zone": "",
        "capacity_type": "spot", "price_per_hour": 0.25,
        "phase_since": "1970-01-01T00:00:01.000000Z", "version": 3,
    });
    assert_eq!(one, shown);
    let why = api.get(&format!("/v1/fleet/machines/{}/why", machine())).await.json();
    assert_eq!((&why["machine"], &why["advice"][0]["remedy"]), (&shown, &json!("a remedy")));
}

#[tokio::test]
async fn unknown_objects_of_the_fleet_have_the_code_of_their_kind() {
    let api = TestApi::new();
    let cases = [
        ("/v1/fleet/machines/m-1", "machine_not_found"),
        ("/v1/fleet/machines/01890a5d-ac96-774b-bcce-b30209ffffff/why", "machine_not_found"),
        ("/v1/fleet/shards/t/plan", "shard_not_found"),
        ("/v1/fleet/demand/unknown", "demand_not_found"),
        ("/v1/fleet/demand/%20unknown", "demand_not_found"),
    ];
    for (path, code) in cases {
        assert_eq!(api.get(path).await.refusal(), refused(404, code), "{path}");
    }
    let paused = api.ask("admin", "POST", "/v1/fleet/shards/t/pause", None).await;
    assert_eq!(paused.refusal(), refused(404, "shard_not_found"));
}

/// Red by: a need that is accepted although no shard can serve it.
// Requirement: F-54
#[tokio::test]
async fn a_demand_replaces_the_last_one_and_invalid_needs_are_refused() {
    let api = TestApi::new();
    let path = "/v1/fleet/demand/a";
    let need = json!({
        "aggregate": {"cpu": "64"}, "min_unit": {"cpu": "4"}, "priority": 10, "spread": [],
        "requirements": [{"key": "zone", "operator": "NotIn", "values": ["z"]}],
        "interruption_bucket": 2, "reclamation_bucket": 3, "group": "g",
    });
    let put = async |needs: serde_json::Value| {
        api.ask("admin", "PUT", path, Some(json!({"needs": needs}))).await
    };
    let accepted = put(json!([need, {"aggregate": {"cpu": "1"}}])).await;
    assert_eq!((accepted.status, &accepted.json()["judged"]), (200, &json!("Accepted")));
    let bad = |field: &str, value: serde_json::Value| {
        let mut bad = need.clone();
        bad[field] = value;
        json!([bad])
    };
    let asks = |operator: &str| json!([{"key": "k", "operator": operator}]);
    let cases = [
        (bad("aggregate", json!({})), "need_empty"),
        (bad("aggregate", json!({"cpu": "much"})), "quantity"),
        (bad("requirements", asks("In")), "need_requirement"),
        (bad("requirements", asks("Maybe")), "need_requirement"),
        (bad("requirements", asks("Same")), "gang_unsupported"),
        (bad("spread", json!(["zone"])), "spread_unsupported"),
        (bad("interruption_bucket", json!(28)), "penalty"),
        (json!(vec![json!({"aggregate": {"cpu": "1"}}); 4_097]), "demand_too_long"),
    ];
    for (needs, code) in cases {
        assert_eq!(put(needs).await.refusal(), refused(422, code));
    }
    assert_eq!(api.get(path).await.json()["needs"].as_array().unwrap().len(), 2, "nothing changed");
    put(json!([need])).await;
    assert_eq!(api.get(path).await.json()["needs"], json!([need]), "as it was sent");
    let all = api.get("/v1/fleet/demand").await.json();
    assert_eq!(
        (&all["items"][0]["cluster"], &all["items"][0]["shard"]),
        (&json!("a"), &json!("s"))
    );
}

// Requirement: F-55
#[tokio::test]
async fn shards_are_paused_by_admins_and_seen_by_viewers() {
    let api = TestApi::new();
    let switch = async || {
        let shards = api.ask("watcher", "GET", "/v1/fleet/shards", None).await.json();
        shards["items"][0]["switch"].as_str().unwrap().to_owned()
    };
    let send = async |who: &str, method: &str, verb: &str, body| {
        api.ask(who, method, &format!("/v1/fleet/shards/s/{verb}"), body).await.status
    };
    assert_eq!(switch().await, "Run");
    assert_eq!(send("operator", "POST", "pause", None).await, 403);
    assert_eq!(send("admin", "POST", "pause", None).await, 200);
    assert_eq!(send("admin", "PUT", "dry-run", Some(json!({"on": true}))).await, 200);
    assert_eq!(switch().await, "Paused");
    assert_eq!(send("admin", "POST", "resume", None).await, 200);
    assert_eq!(switch().await, "DryRun");
    assert_eq!(send("admin", "PUT", "dry-run", Some(json!({"on": false}))).await, 200);
    assert_eq!(switch().await, "Run");
}

#[tokio::test]
async fn a_plan_shows_its_aims_and_what_holds_it_back() {
    let api = TestApi::new();
    let plan = api.get("/v1/fleet/shards/s/plan").await.json();
    assert_eq!((&plan["aims_total"], &plan["aims"][0]["cause"]), (&json!(900), &json!("Preempt")));
    assert_eq!(plan["clusters"][0]["held_back"], "ReclaimCap");
    assert_eq!(plan["clusters"][0]["refused"], json!(["need_empty"]));
    assert_eq!(plan["held_back"], json!(["ListQuarantined"]));
    assert_eq!(plan["outcomes"], json!({"NoCapacity": 1}));
}

// Requirement: F-47
#[tokio::test]
async fn a_dispute_is_settled_in_one_of_two_ways() {
    let api = TestApi::new();
    let path = format!("/v1/fleet/machines/{}/settle", machine());
    let settle =
        async |how: &str| api.ask("admin", "POST", &path, Some(json!({"settlement": how}))).await;
    assert_eq!(settle("adopt").await.status, 200);
    assert_eq!(settle("drain").await.refusal(), refused(409, "not_disputed"));
    assert_eq!(settle("burn").await.refusal(), refused(400, "body_invalid"));
}

/// Red by: machines of the installation in the log of a project.
// Requirement: F-58
#[tokio::test]
async fn events_of_machines_need_a_token_for_the_installation() {
    let api = TestApi::new();
    api.fake.append(demo(), 1);
    api.fake.append_event(Subject::Machine(machine()), 2);
    let kinds = async |who: &str, query: &str| {
        let list = api.ask(who, "GET", &format!("/v1/events?{query}"), None).await.json();
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["machine"].is_string()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("admin", "").await, [false, true]);
    assert_eq!(kinds("admin", "project=demo").await, [false]);
    assert_eq!(kinds("viewer", "").await, [false]);
    let list = api.get("/v1/events").await.json();
    assert_eq!(list["items"][1]["machine"], machine().to_string());
    assert!(list["items"][1]["resource"].is_null() && list["items"][1]["project"].is_null());
}
