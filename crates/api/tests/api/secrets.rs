//! What is logged holds no secret.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;
use usher_api::ports::{Failure, Refused};

use crate::fake::{NODE_SECRET, TOKENS};
use crate::test_api::{TestApi, request};

/// Everything that is logged in this process.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

/// The log of this process. One subscriber for all tests: a call site without a subscriber at its
/// first line stays disabled, so one per test would miss lines.
pub(crate) fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(log.clone())
            .with_max_level(tracing::Level::TRACE)
            .finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        log
    })
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Red by: a log of headers, bodies or whole failures.
// Requirement: HC-9
#[tokio::test]
async fn no_line_of_the_log_holds_a_secret() {
    let api = TestApi::new();
    let failures = [
        None,
        Some(Failure::Unavailable { what: "the database".to_owned() }),
        Some(Failure::Broken { what: "a row".to_owned() }),
        Some(Refused::new("name_in_use", "cannot take name \"x\"").into()),
    ];
    for failure in failures {
        api.fake.fail(failure);
        for route in usher_api::routes() {
            let path = crate::rights::filled(route.path);
            let body = json!({"bootstrap_token": "body-canary", "reason": "body-canary"});
            for (who, _) in TOKENS {
                let mut request = request(who, route.method.as_str(), &path, Some(body.clone()));
                request.headers_mut().insert("idempotency-key", "key-canary".parse().unwrap());
                drop(api.open(request).await);
            }
            let request = Request::builder()
                .method(route.method.clone())
                .uri(&path)
                .header(header::AUTHORIZATION, format!("Bearer {NODE_SECRET}"));
            drop(api.open(request.body(Body::empty()).unwrap()).await);
        }
    }
    let text = String::from_utf8(log().0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("unavailable") && text.contains("internal error"), "something is logged");
    assert!(!text.contains("canary"), "{text}");
}
