//! The log over HTTP: pages, and a stream that resumes where it was cut.

use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::fake::{demo, first, other, uuid};
use crate::test_api::{TestApi, refused};

fn stream(who: &str, query: &str, last: Option<&str>) -> Request<Body> {
    let mut it = crate::test_api::request(who, "GET", &format!("/v1/events?{query}"), None);
    it.headers_mut().insert(header::ACCEPT, "text/event-stream".parse().unwrap());
    if let Some(last) = last {
        it.headers_mut().insert("last-event-id", last.parse().unwrap());
    }
    it
}

/// The next events of a stream, up to so many: their ids and data.
async fn take(body: &mut Body, count: usize) -> Vec<(String, Value)> {
    let mut text = String::new();
    loop {
        let events = parsed(&text);
        if events.len() >= count {
            return events;
        }
        let Some(frame) = body.frame().await else { return events };
        let bytes = frame.unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
}

fn parsed(text: &str) -> Vec<(String, Value)> {
    let whole = text.split_inclusive("\n\n").filter(|it| it.ends_with("\n\n"));
    whole
        .filter_map(|it| {
            let field =
                |name: &str| it.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            Some((field("id: ")?, serde_json::from_str(&field("data: ")?).unwrap()))
        })
        .collect()
}

fn versions(events: &[(String, Value)]) -> Vec<u64> {
    events.iter().map(|(_, it)| it["version"].as_u64().unwrap()).collect()
}

// Requirement: HC-13
#[tokio::test]
async fn an_event_has_the_seven_fields_of_the_contract() {
    let api = TestApi::new();
    api.fake.append(demo(), 1);
    let page = api.get("/v1/events").await.json();
    let expected = json!({"items": [{
        "id": uuid(1_001).to_string(),
        "type": "broker.ProvisionedResourceReady",
        "resource": first().to_string(),
        "project": demo().to_string(),
        "version": 1,
        "occurred_at": "1970-01-01T00:00:01.000000Z",
        "data": {},
    }], "next_cursor": null});
    assert_eq!(page, expected);
}

#[tokio::test]
async fn the_log_is_read_page_by_page() {
    let api = TestApi::new();
    for n in 1..=5 {
        api.fake.append(demo(), n);
    }
    let mut read = vec![];
    let mut after = String::new();
    loop {
        let page = api.get(&format!("/v1/events?limit=2&after={after}")).await.json();
        let items = page["items"].as_array().unwrap();
        read.extend(items.iter().map(|it| it["version"].as_u64().unwrap()));
        match page["next_cursor"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(read, [1, 2, 3, 4, 5]);
}

/// Red by: a stream that repeats or skips after it was cut.
// Requirement: HC-12
#[tokio::test]
async fn a_stream_resumes_after_the_last_event_id() {
    let api = TestApi::new();
    for n in 1..=3 {
        api.fake.append(demo(), n);
    }
    let response = api.open(stream("admin", "from=beginning", None)).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    let mut body = response.into_body();
    let read = take(&mut body, 2).await;
    let last = read[1].0.clone();
    assert_eq!(versions(&read[..2]), [1, 2]);
    drop(body);
    api.fake.append(demo(), 4);
    let mut body = api.open(stream("admin", "", Some(&last))).await.into_body();
    assert_eq!(versions(&take(&mut body, 2).await), [3, 4]);
    api.fake.append(demo(), 5);
    assert_eq!(versions(&take(&mut body, 1).await), [5], "as it happens");
}

// Requirement: HC-12
#[tokio::test]
async fn a_stream_begins_at_the_end_by_default() {
    let api = TestApi::new();
    api.fake.append(demo(), 1);
    let mut body = api.open(stream("admin", "", None)).await.into_body();
    api.fake.append(demo(), 2);
    assert_eq!(versions(&take(&mut body, 1).await), [2]);
    let empty = TestApi::new();
    let mut body = empty.open(stream("admin", "from=beginning", None)).await.into_body();
    empty.fake.append(demo(), 1);
    assert_eq!(versions(&take(&mut body, 1).await), [1], "an empty log has a beginning too");
}

// Requirement: HC-3
#[tokio::test]
async fn a_token_sees_no_events_of_another_project() {
    let api = TestApi::new();
    api.fake.append(other(), 1);
    api.fake.append(demo(), 2);
    let page = api.ask("operator", "GET", "/v1/events", None).await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    let mut body = api.open(stream("operator", "from=beginning", None)).await.into_body();
    assert_eq!(versions(&take(&mut body, 1).await), [2]);
    let admin = api.get("/v1/events?project=other").await.json();
    assert_eq!(admin["items"][0]["version"], 1);
    let none = api.get("/v1/events?resource=01890a5d-ac96-774b-bcce-b30209ffffff").await.json();
    assert_eq!(none["items"], json!([]));
}

// Requirement: HC-12
#[tokio::test]
async fn an_invalid_or_expired_cursor_is_refused_before_the_stream_begins() {
    let api = TestApi::new();
    let nonsense = api.send(stream("admin", "", Some("nonsense"))).await;
    assert_eq!(nonsense.refusal(), refused(400, "cursor_invalid"));
    let forgotten = api.send(stream("admin", "", Some("1.0.0"))).await;
    assert_eq!(forgotten.refusal(), refused(410, "cursor_forgotten"));
    let page = api.get("/v1/events?after=nonsense").await;
    assert_eq!(page.refusal(), refused(400, "cursor_invalid"));
}

// Requirement: HC-12
#[tokio::test]
async fn a_stream_ends_when_the_process_does() {
    let api = TestApi::new();
    let mut body = api.open(stream("admin", "", None)).await.into_body();
    api.fake.close();
    assert_eq!(take(&mut body, 1).await, []);
}

// Requirement: HC-12
#[tokio::test(start_paused = true)]
async fn an_idle_stream_sends_keep_alives() {
    let api = TestApi::new();
    let mut body = api.open(stream("admin", "", None)).await.into_body();
    for _ in 0..3 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(&frame[..], b":\n\n");
    }
}
