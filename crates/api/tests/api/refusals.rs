//! Every code with its status, as a problem.

use axum::http::header;
use serde_json::json;
use usher_api::codes::BY_STATUS;
use usher_api::ports::{Failure, Refused};

use crate::fake::first;
use crate::test_api::{TestApi, refused};

/// Red by: a status in the body that differs from the head, or a code without its page.
// Requirement: D-10, HC-5
#[tokio::test]
async fn every_code_has_its_status_and_page() {
    let api = TestApi::new();
    for (status, codes) in BY_STATUS {
        for code in codes {
            api.fake.fail(Some(Refused::new(code, "cannot do it").into()));
            let answered = api.get(&format!("/v1/resources/{}", first())).await;
            let expected = json!({
                "type": format!("https://usher.dev/docs/codes/{code}.md"),
                "title": code.replace('_', " "),
                "status": status,
                "code": code,
                "detail": "cannot do it",
            });
            assert_eq!((answered.status, answered.json()), (status, expected));
        }
    }
}

// Requirement: HC-6
#[tokio::test]
async fn unavailable_is_503_and_a_bug_is_500_without_its_text() {
    let api = TestApi::new();
    api.fake.fail(Some(Failure::Unavailable { what: "the database".to_owned() }));
    let answered = api.get("/v1/projects").await;
    assert_eq!(answered.refusal(), refused(503, "unavailable"));
    assert_eq!(answered.headers[header::RETRY_AFTER], "1");
    assert!(answered.text.contains("the database"));
    api.fake.fail(Some(Failure::Broken { what: "row 7".to_owned() }));
    let answered = api.get("/v1/projects").await;
    assert_eq!(answered.refusal(), refused(500, "internal"));
    assert!(!answered.text.contains("row 7"));
}

// Requirement: HC-5
#[tokio::test]
async fn an_unknown_code_is_an_internal_error() {
    let api = TestApi::new();
    api.fake.fail(Some(Refused::new("no_such_code", "canary").into()));
    let answered = api.get("/v1/projects").await;
    assert_eq!(answered.refusal(), refused(500, "internal"));
    assert!(!answered.text.contains("canary"));
}

// Requirement: HC-7
#[tokio::test]
async fn unknown_paths_and_methods_are_problems_too() {
    let api = TestApi::new();
    for path in ["/", "/v1", "/v2/projects", "/v1/resources/", "/v1/resources/a/b/c"] {
        assert_eq!(api.get(path).await.refusal(), refused(404, "route_not_found"), "{path}");
    }
    let wrong = api.ask("admin", "PATCH", "/v1/projects", None).await;
    assert_eq!(wrong.refusal(), refused(405, "method_not_allowed"));
    let unreadable = api.get("/v1/projects/%ff").await;
    assert_eq!(unreadable.refusal(), refused(400, "path_invalid"));
}

// Requirement: HC-7
#[tokio::test]
async fn unknown_objects_have_the_code_of_their_kind() {
    let api = TestApi::new();
    let unknown = "01890a5d-ac96-774b-bcce-b30209ffffff";
    let cases = [
        (format!("/v1/resources/{unknown}"), "provisioned_resource_not_found"),
        ("/v1/resources/web-1".to_owned(), "provisioned_resource_not_found"),
        ("/v1/projects/nowhere".to_owned(), "project_not_found"),
        ("/v1/projects/No%20Slug".to_owned(), "project_not_found"),
        (format!("/v1/tenancies/{unknown}"), "tenancy_not_found"),
        ("/v1/tenancies/x".to_owned(), "tenancy_not_found"),
        ("/v1/blueprints/nothing".to_owned(), "blueprint_not_found"),
        ("/v1/clouds/nothing".to_owned(), "cloud_not_found"),
        ("/v1/credentials/nothing".to_owned(), "credential_not_found"),
        (format!("/v1/nodes/{unknown}"), "node_not_found"),
        ("/v1/resources?project=nowhere".to_owned(), "project_not_found"),
    ];
    for (path, code) in cases {
        assert_eq!(api.get(&path).await.refusal(), refused(404, code), "{path}");
    }
    let token = format!("/v1/operator-tokens/{unknown}");
    let unknown = api.ask("admin", "DELETE", &token, None).await;
    assert_eq!(unknown.refusal(), refused(404, "operator_token_not_found"));
    let world = api.ask("admin", "POST", "/v1/guards/mars/reset", None).await;
    assert_eq!(world.refusal(), refused(404, "world_not_found"));
}

/// Red by: an id that a log line cannot be found by.
// Requirement: HC-17
#[tokio::test]
async fn every_answer_has_a_request_id_and_keeps_a_valid_one() {
    let api = TestApi::new();
    let id = |answered: &crate::test_api::Answered| {
        answered.headers[usher_api::REQUEST_ID].to_str().unwrap().to_owned()
    };
    let made = id(&api.get("/v1/projects").await);
    assert_eq!(made.len(), 36);
    assert_ne!(made, id(&api.get("/nowhere").await));
    for (given, kept) in [("abc-1.2_3", true), ("a b", false), (&"x".repeat(65), false)] {
        let mut request = crate::test_api::request("admin", "GET", "/v1/projects", None);
        request.headers_mut().insert(usher_api::REQUEST_ID, given.parse().unwrap());
        assert_eq!(id(&api.send(request).await) == given, kept, "{given}");
    }
}
