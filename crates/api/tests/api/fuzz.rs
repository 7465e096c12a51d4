//! Requests made from the committed document, valid and invalid: never a 500, never a panic.

use axum::body::Body;
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use usher_api::codes;
use usher_api::ports::Failure;

use crate::fake::{NODE_SECRET, first, node};
use crate::requests::{Words, requests};
use crate::test_api::TestApi;

/// How many requests one run makes.
const CASES: u32 = 3_000;

/// Red by: a parser that panics, a failure without a closed code.
// Requirement: HC-16
#[test]
fn requests_from_the_document_never_fail_internally() {
    let bearers = [(6, "admin-canary"), (2, "operator-canary"), (2, NODE_SECRET), (1, "wrong")];
    let words = Words {
        known: vec![first().to_string(), node().to_string()],
        bearers: bearers.map(|(often, it)| (often, it.to_owned())).into(),
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let api = TestApi::new();
    let statuses = std::cell::RefCell::new(std::collections::BTreeMap::new());
    runner
        .run(&(requests(&words), prop::bool::weighted(0.1)), |(request, down)| {
            let what = "the database".to_owned();
            api.fake.fail(down.then_some(Failure::Unavailable { what }));
            let shown = format!("{} {}", request.method(), request.uri());
            let response = runtime.block_on(api.open(request.map(Body::from)));
            let status = response.status().as_u16();
            *statuses.borrow_mut().entry(status).or_insert(0) += 1;
            prop_assert!(status != 500, "{}", shown);
            if status >= 400 {
                let body = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
                let problem: Value = serde_json::from_slice(&body).unwrap_or(json!({}));
                let code = problem["code"].as_str().unwrap_or("");
                prop_assert_eq!(codes::status(code), Some(status), "{} {}", shown, problem);
            }
            Ok(())
        })
        .unwrap();
    let statuses = statuses.into_inner();
    for reached in [200, 201, 202, 400, 401, 404, 409, 422, 503] {
        assert!(statuses.contains_key(&reached), "{reached} was never reached: {statuses:?}");
    }
}
