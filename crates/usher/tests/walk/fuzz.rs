//! Requests generated from the committed `OpenAPI` document against the real server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use axum::http::Request;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use crate::asked::{Words, requests};
use crate::test_server::TestServer;

/// Requests of one run.
const CASES: u32 = 1_200;

/// The request as bytes on the wire.
fn written(request: Request<Vec<u8>>) -> Vec<u8> {
    let (head, body) = request.into_parts();
    let mut text = format!("{} {} HTTP/1.1\r\nhost: localhost\r\n", head.method, head.uri);
    for (name, value) in &head.headers {
        write!(text, "{name}: {}\r\n", value.to_str().unwrap()).unwrap();
    }
    write!(text, "connection: close\r\ncontent-length: {}\r\n\r\n", body.len()).unwrap();
    [text.into_bytes(), body].concat()
}

/// Red by: a service that accepts what its store cannot, or a failure without an error code.
// Requirement: HC-16
#[tokio::test]
async fn requests_generated_from_openapi_cause_no_500_and_no_panic() {
    let mut server = TestServer::up(&["local.agent=external"]).await;
    let id = server.provision("web-1").await;
    server.until_reason(&id, "WaitingForNode").await;
    let token = fs::read_to_string(server.data().join("admin.token")).unwrap();
    let bearers = vec![(9, token.trim().to_owned()), (1, "wrong".to_owned())];
    let words = Words { known: vec![id, "node-2".to_owned()], bearers };
    let requests = requests(&words);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut statuses: BTreeMap<u16, u32> = BTreeMap::new();
    for _ in 0..CASES {
        let request = requests.new_tree(&mut runner).unwrap().current();
        let shown = format!("{} {}", request.method(), request.uri());
        let Some((status, body)) = server.send(&written(request)).await else {
            panic!("{shown} was not answered: {}", server.said());
        };
        *statuses.entry(status).or_default() += 1;
        assert!(status != 500, "{shown}: {body}");
        if status >= 400 {
            let problem: Value = serde_json::from_str(&body).unwrap_or_default();
            let code = problem["code"].as_str().unwrap_or("");
            assert_eq!(usher_api::codes::status(code), Some(status), "{shown}: {body}");
        }
    }
    for reached in [200, 201, 202, 400, 401, 404, 409, 422] {
        assert!(statuses.contains_key(&reached), "{reached} was never reached: {statuses:?}");
    }
    assert_eq!(server.deaths(), 0);
    assert!(!server.said().contains("panicked"), "{}", server.said());
}
