//! Every code with its status, as a problem.

use axum::http::header;
use serde_json::json;
use usher_api::codes::BY_STATUS;
use usher_api::ports::{Failure, Refused};

use crate::bed::{Bed, refused};
use crate::fake::first;

/// Red by: a status that is told in the body and not in the head, or a code without its page.
// Requirement: D-10, HC-5
#[tokio::test]
async fn every_code_is_told_with_its_status_and_its_page() {
    let bed = Bed::new();
    for (status, codes) in BY_STATUS {
        for code in codes {
            bed.fake.fail(Some(Refused::new(code, "cannot do it").into()));
            let answered = bed.get(&format!("/v1/resources/{}", first())).await;
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
async fn trouble_is_503_with_a_code_and_a_bug_is_500_without_its_text() {
    let bed = Bed::new();
    bed.fake.fail(Some(Failure::Unavailable { what: "the database".to_owned() }));
    let answered = bed.get("/v1/projects").await;
    assert_eq!(answered.refusal(), refused(503, "unavailable"));
    assert_eq!(answered.headers[header::RETRY_AFTER], "1");
    assert!(answered.text.contains("the database"));
    bed.fake.fail(Some(Failure::Broken { what: "row 7".to_owned() }));
    let answered = bed.get("/v1/projects").await;
    assert_eq!(answered.refusal(), refused(500, "internal"));
    assert!(!answered.text.contains("row 7"));
}

// Requirement: HC-5
#[tokio::test]
async fn a_code_that_nobody_knows_is_a_bug() {
    let bed = Bed::new();
    bed.fake.fail(Some(Refused::new("no_such_code", "canary").into()));
    let answered = bed.get("/v1/projects").await;
    assert_eq!(answered.refusal(), refused(500, "internal"));
    assert!(!answered.text.contains("canary"));
}

// Requirement: HC-7
#[tokio::test]
async fn paths_and_methods_that_are_none_are_problems_too() {
    let bed = Bed::new();
    for path in ["/", "/v1", "/v2/projects", "/v1/resources/", "/v1/resources/a/b/c"] {
        assert_eq!(bed.get(path).await.refusal(), refused(404, "route_not_found"), "{path}");
    }
    let wrong = bed.ask("admin", "PATCH", "/v1/projects", None).await;
    assert_eq!(wrong.refusal(), refused(405, "method_not_allowed"));
    let unreadable = bed.get("/v1/projects/%ff").await;
    assert_eq!(unreadable.refusal(), refused(400, "path_invalid"));
}

// Requirement: HC-7
#[tokio::test]
async fn what_is_unknown_has_the_code_of_its_kind() {
    let bed = Bed::new();
    let nobody = "01890a5d-ac96-774b-bcce-b30209ffffff";
    let cases = [
        (format!("/v1/resources/{nobody}"), "provisioned_resource_not_found"),
        ("/v1/resources/web-1".to_owned(), "provisioned_resource_not_found"),
        ("/v1/projects/nowhere".to_owned(), "project_not_found"),
        ("/v1/projects/No%20Slug".to_owned(), "project_not_found"),
        (format!("/v1/tenancies/{nobody}"), "tenancy_not_found"),
        ("/v1/tenancies/x".to_owned(), "tenancy_not_found"),
        ("/v1/blueprints/nothing".to_owned(), "blueprint_not_found"),
        ("/v1/clouds/nothing".to_owned(), "cloud_not_found"),
        ("/v1/credentials/nothing".to_owned(), "credential_not_found"),
        (format!("/v1/nodes/{nobody}"), "node_not_found"),
        ("/v1/resources?project=nowhere".to_owned(), "project_not_found"),
    ];
    for (path, code) in cases {
        assert_eq!(bed.get(&path).await.refusal(), refused(404, code), "{path}");
    }
    let token = format!("/v1/operator-tokens/{nobody}");
    let unknown = bed.ask("admin", "DELETE", &token, None).await;
    assert_eq!(unknown.refusal(), refused(404, "operator_token_not_found"));
    let world = bed.ask("admin", "POST", "/v1/rails/mars/open", None).await;
    assert_eq!(world.refusal(), refused(404, "world_not_found"));
}

/// Red by: an id that a log line cannot be found by.
// Requirement: HC-17
#[tokio::test]
async fn every_answer_carries_a_request_id_and_a_sound_one_is_kept() {
    let bed = Bed::new();
    let id = |answered: &crate::bed::Answered| {
        answered.headers[usher_api::REQUEST_ID].to_str().unwrap().to_owned()
    };
    let made = id(&bed.get("/v1/projects").await);
    assert_eq!(made.len(), 36);
    assert_ne!(made, id(&bed.get("/nowhere").await));
    for (given, kept) in [("abc-1.2_3", true), ("a b", false), (&"x".repeat(65), false)] {
        let mut asked = crate::bed::request("admin", "GET", "/v1/projects", None);
        asked.headers_mut().insert(usher_api::REQUEST_ID, given.parse().unwrap());
        assert_eq!(id(&bed.send(asked).await) == given, kept, "{given}");
    }
}
