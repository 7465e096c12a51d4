//! Liveness, readiness, metrics.

use usher_api::views::Check;

use crate::test_api::{TestApi, refused};

// Requirement: D-9
#[tokio::test]
async fn liveness_needs_no_token_and_no_database() {
    let api = TestApi::new();
    api.fake.fail(Some(usher_api::ports::Failure::Unavailable { what: "all".to_owned() }));
    assert_eq!(api.ask("anonymous", "GET", "/healthz", None).await.status, 204);
}

/// Red by: a failing check that is not named.
// Requirement: D-9
#[tokio::test]
async fn readiness_names_what_fails() {
    let api = TestApi::new();
    let ready = api.ask("anonymous", "GET", "/readyz", None).await;
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json()["checks"][1]["name"], "world:local");
    api.fake.state().checks = vec![
        Check { name: "database".to_owned(), failing: Some("no answer".to_owned()) },
        Check { name: "world:local".to_owned(), failing: None },
        Check { name: "worker".to_owned(), failing: Some("stopped".to_owned()) },
    ];
    let unready = api.ask("anonymous", "GET", "/readyz", None).await;
    assert_eq!(unready.refusal(), refused(503, "unavailable"));
    let detail = unready.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("database") && detail.contains("worker"), "{detail}");
    assert!(!detail.contains("world"), "{detail}");
}

/// Red by: a path with an id in a label.
// Requirement: HC-17
#[tokio::test]
async fn requests_are_counted_by_route_method_and_status() {
    let api = TestApi::new();
    let id = crate::fake::first().to_string();
    api.get(&format!("/v1/resources/{id}")).await;
    api.get(&format!("/v1/resources/{id}")).await;
    api.get("/nowhere/at/all").await;
    let shown = api.get("/metrics").await;
    assert_eq!(shown.status, 200);
    let line = "usher_http_requests_total{route=\"/v1/resources/{id}\",method=\"GET\",\
                status=\"200\"} 2";
    assert!(shown.text.contains(line), "{}", shown.text);
    assert!(!shown.text.contains(&id) && !shown.text.contains("nowhere"), "{}", shown.text);
    assert!(shown.text.ends_with("# EOF\n"));
}
