//! Rights: every route with every caller.

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::json;
use usher_api::Right;
use usher_domain::operators::{Reach, Role};

use crate::fake::{NODE_SECRET, TOKENS, caller, first, machine, node};
use crate::test_api::{TestApi, refused, request};

/// A path with something in each of its braces.
pub(crate) fn filled(path: &str) -> String {
    let resource = first().to_string();
    let id = if path.contains("/nodes/") {
        node().to_string()
    } else if path.contains("/machines/") {
        machine().to_string()
    } else {
        resource
    };
    path.replace("{id}", &id)
        .replace("{project}", "demo")
        .replace("{blueprint}", "local-node")
        .replace("{version}", "1.0.0")
        .replace("{cloud}", "local")
        .replace("{credential}", "local")
        .replace("{world}", "local")
        .replace("{shard}", "s")
        .replace("{cluster}", "a")
}

/// The expected answer of a right to a caller, written by hand from the roles.
fn expected(right: Right, who: &str) -> Option<(u16, String)> {
    let (needed, everywhere) = match right {
        Right::Public => return None,
        Right::Node => return Some(refused(401, "unauthenticated")),
        Right::Project(role) => (role, false),
        Right::Installation(role) => (role, true),
    };
    let Some(caller) = caller(who) else { return Some(refused(401, "unauthenticated")) };
    let low = match (needed, caller.grant.role()) {
        (Role::Viewer, _) | (Role::Operator, Role::Operator | Role::Admin) => false,
        (Role::Operator, Role::Viewer) => true,
        (Role::Admin, role) => role != Role::Admin,
    };
    let narrow = everywhere && caller.grant.reach() != Reach::Installation;
    (low || narrow).then(|| refused(403, "forbidden"))
}

/// Red by: a route with a right that is lower than the table requires.
// Requirement: D-15, HC-1
#[tokio::test]
async fn every_route_admits_exactly_the_tokens_of_its_right() {
    let api = TestApi::new();
    let callers = TOKENS.iter().map(|(name, _)| *name).chain(["anonymous"]);
    for who in callers {
        for route in usher_api::routes() {
            let path = filled(route.path);
            let what = format!("{who}: {} {path}", route.method);
            let sent = request(who, route.method.as_str(), &path, None);
            let response = api.open(sent).await;
            let status = response.status().as_u16();
            match expected(route.right, who) {
                Some((refused, _)) => assert_eq!(status, refused, "{what}"),
                None => assert!(!matches!(status, 401 | 403), "{what}: {status}"),
            }
        }
    }
}

/// Red by: a new route that is missing here.
// Requirement: HC-1
#[test]
fn the_rights_of_routes_are_these() {
    let mut lines: Vec<String> = usher_api::routes()
        .iter()
        .map(|it| format!("{} {} {:?}", it.path, it.method, it.right))
        .collect();
    lines.sort();
    insta::assert_snapshot!("rights", lines.join("\n"));
}

// Requirement: HC-2
#[tokio::test]
async fn a_missing_wrong_or_repeated_bearer_token_is_refused() {
    let api = TestApi::new();
    let ask = |values: &[&str]| {
        let mut it = Request::builder().uri("/v1/projects");
        for value in values {
            it = it.header(header::AUTHORIZATION, *value);
        }
        it.body(Body::empty()).unwrap()
    };
    let cases: [&[&str]; 8] = [
        &[],
        &["Bearer"],
        &["Bearer "],
        &["Bearer wrong"],
        &["Basic admin-canary"],
        &["admin-canary"],
        &["Bearer admin-canary "],
        &["Bearer admin-canary", "Bearer admin-canary"],
    ];
    for values in cases {
        let answered = api.send(ask(values)).await;
        assert_eq!(answered.refusal(), refused(401, "unauthenticated"), "{values:?}");
        assert_eq!(answered.headers[header::WWW_AUTHENTICATE], "Bearer");
    }
    let long = format!("Bearer {}", "a".repeat(10_000));
    assert_eq!(api.send(ask(&[&long])).await.status, 401);
    assert_eq!(api.send(ask(&["bearer admin-canary"])).await.status, 200);
}

/// Red by: an answer that reveals to a caller without rights that something exists.
// Requirement: HC-3
#[tokio::test]
async fn objects_of_other_projects_are_not_found() {
    let api = TestApi::new();
    let one = format!("/v1/resources/{}", first());
    for (method, path) in [
        ("GET", one.clone()),
        ("DELETE", one.clone()),
        ("GET", format!("{one}/why")),
        ("GET", format!("{one}/plan")),
        ("GET", format!("{one}/receipt")),
        ("POST", format!("{one}/retry")),
        ("POST", format!("{one}/replace")),
        ("GET", format!("{one}/labels")),
    ] {
        let foreign = api.ask("other-operator", method, &path, None).await;
        let code = refused(404, "provisioned_resource_not_found");
        assert_eq!(foreign.refusal(), code, "{method} {path}");
        assert!(api.ask("operator", method, &path, None).await.status < 300, "{method} {path}");
    }
    let project = api.ask("other-operator", "GET", "/v1/projects/demo", None).await;
    assert_eq!(project.refusal(), refused(404, "project_not_found"));
    let node = api.ask("other-operator", "GET", &format!("/v1/nodes/{}", node()), None).await;
    assert_eq!(node.refusal(), refused(404, "node_not_found"));
    let body = json!({"name": "w", "project": "demo", "blueprint": "local-node",
        "credential": "local"});
    let declared = api.ask("other-operator", "POST", "/v1/resources", Some(body)).await;
    assert_eq!(declared.refusal(), refused(404, "project_not_found"));
}

// Requirement: HC-3
#[tokio::test]
async fn lists_hold_the_projects_of_the_token() {
    let api = TestApi::new();
    let names = async |who: &str, path: &str, field: &str| {
        let items = api.ask(who, "GET", path, None).await.json()["items"].clone();
        let items = items.as_array().unwrap().clone();
        items.iter().map(|it| it[field].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("admin", "/v1/projects", "slug").await, ["demo", "other"]);
    assert_eq!(names("operator", "/v1/projects", "slug").await, ["demo"]);
    assert_eq!(names("other-operator", "/v1/projects", "slug").await, ["other"]);
    assert_eq!(names("operator", "/v1/resources", "name").await, ["web-1"]);
    assert_eq!(names("other-operator", "/v1/resources", "name").await, Vec::<String>::new());
    assert_eq!(names("other-operator", "/v1/nodes", "name").await, Vec::<String>::new());
    assert_eq!(names("other-operator", "/v1/tokens", "id").await, Vec::<String>::new());
    assert_eq!(names("other-operator", "/v1/placements", "world").await, ["local"]);
}

/// Red by: a node secret that is accepted as an operator token, or the reverse.
// Requirement: D-15
#[tokio::test]
async fn operators_and_nodes_cannot_use_each_others_routes() {
    let api = TestApi::new();
    let beat = format!("/v1/nodes/{}/heartbeat", node());
    let body = json!({"acknowledged": 1, "in_flight": 0, "draining": false, "agent_version": "1"});
    let operator = api.ask("admin", "POST", &beat, Some(body)).await;
    assert_eq!(operator.refusal(), refused(401, "unauthenticated"));
    let request = Request::builder()
        .uri("/v1/projects")
        .header(header::AUTHORIZATION, format!("Bearer {NODE_SECRET}"))
        .body(Body::empty())
        .unwrap();
    assert_eq!(api.send(request).await.refusal(), refused(401, "unauthenticated"));
}

/// Red by: a marker for every answer, or none for a refusal after the token was found valid.
// Requirement: CN-5
#[tokio::test]
async fn only_a_valid_token_marks_its_connection() {
    let api = TestApi::new();
    let marks = async |who: &str, path: &str| {
        let response = api.open(request(who, "GET", path, None)).await;
        response.extensions().get::<usher_listen::Authenticated>().is_some()
    };
    assert!(marks("admin", "/v1/projects").await);
    assert!(marks("admin", "/v1/projects/missing").await, "a refusal of a known caller");
    assert!(!marks("anonymous", "/v1/projects").await);
    assert!(!marks("admin", "/readyz").await, "a public route does not look at tokens");
}
