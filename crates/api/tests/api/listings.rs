//! Pages and queries.

use crate::fake::demo;
use crate::test_api::{TestApi, refused};

/// Red by: a page that repeats or skips.
// Requirement: D-10, HC-11
#[tokio::test]
async fn pages_follow_each_other_to_the_end() {
    let api = TestApi::new();
    for n in 2..=7 {
        api.fake.declare(demo(), &format!("web-{n}"));
    }
    let mut names = vec![];
    let mut after = String::new();
    let mut pages = 0;
    loop {
        let page = api.get(&format!("/v1/resources?limit=3&after={after}")).await.json();
        let items = page["items"].as_array().unwrap();
        names.extend(items.iter().map(|it| it["name"].as_str().unwrap().to_owned()));
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(names, (1..=7).map(|n| format!("web-{n}")).collect::<Vec<_>>());
    let whole = api.get("/v1/resources").await.json();
    assert!(whole["next_cursor"].is_null() && whole.as_object().unwrap().len() == 2);
}

// Requirement: HC-11
#[tokio::test]
async fn an_invalid_query_is_refused() {
    let api = TestApi::new();
    for query in [
        "limit=0",
        "limit=501",
        "limit=-1",
        "limit=x",
        "limit=",
        "colour=red",
        "limit=1&limit=2",
        "deleted=perhaps",
    ] {
        let answered = api.get(&format!("/v1/resources?{query}")).await;
        assert_eq!(answered.refusal(), refused(400, "query_invalid"), "{query}");
    }
    let cursor = api.get("/v1/resources?after=nonsense").await;
    assert_eq!(cursor.refusal(), refused(400, "cursor_invalid"));
    for query in ["limit=1", "limit=500", "deleted=true", "project=demo", "name=web-1", ""] {
        assert_eq!(api.get(&format!("/v1/resources?{query}")).await.status, 200, "{query}");
    }
}

#[tokio::test]
async fn a_name_is_found_in_every_project_that_has_it() {
    let api = TestApi::new();
    api.fake.declare(crate::fake::other(), "web-1");
    let found = api.get("/v1/resources?name=web-1").await.json();
    assert_eq!(found["items"].as_array().unwrap().len(), 2);
    let found = api.get("/v1/resources?name=web-1&project=other").await.json();
    assert_eq!(found["items"][0]["project"], "other");
}

/// Red by: a listing that omits registered nodes, or shows nodes that left.
// Requirement: HC-26
#[tokio::test]
async fn nodes_that_left_are_listed_when_all_are_requested() {
    let api = TestApi::new();
    let stages = async |path: &str| {
        let listed = api.get(path).await.json();
        let items = listed["items"].as_array().unwrap().clone();
        items.iter().map(|it| it["stage"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(stages("/v1/nodes").await, ["registered"]);
    assert_eq!(stages("/v1/nodes?all=false").await, ["registered"]);
    assert_eq!(stages("/v1/nodes?all=true").await, ["registered", "deregistered"]);
}
