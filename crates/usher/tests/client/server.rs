//! A server with canned responses, and runs of the binary against it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A request, in the form that tests compare.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordedCall {
    pub(crate) line: String,
    pub(crate) body: Value,
    pub(crate) bearer: String,
    pub(crate) key: bool,
}

/// The next responses to a method and a path.
struct Canned {
    line: String,
    answers: VecDeque<(u16, String)>,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    canned: Arc<Mutex<Vec<Canned>>>,
    asked: Arc<Mutex<Vec<RecordedCall>>>,
    folder: Arc<tempfile::TempDir>,
    /// Held while the server runs.
    _endpoint: Arc<File>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    pub(crate) complained: String,
}

impl Left {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.said).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let endpoint = json!({"url": url, "pid": std::process::id()});
        let path = folder.path().join("endpoint.json");
        std::fs::write(&path, endpoint.to_string()).unwrap();
        let file = File::open(&path).unwrap();
        file.lock().unwrap();
        std::fs::write(folder.path().join("admin.token"), "admin-canary\n").unwrap();
        let (canned, asked, folder) = (Arc::default(), Arc::default(), Arc::new(folder));
        let server = Self { url, canned, asked, folder, _endpoint: Arc::new(file) };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = serving.clone();
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        let serving = serving.clone();
                        async move { Ok::<_, Infallible>(serving.answer(request).await) }
                    });
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        server
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Adds a response to a request; the last one is repeated.
    pub(crate) fn on(&self, line: &str, status: u16, body: &Value) -> &Self {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.says(line, status, text)
    }

    /// Adds a plain text response to a request.
    pub(crate) fn says(&self, line: &str, status: u16, text: String) -> &Self {
        let mut canned = self.canned.lock().unwrap();
        if let Some(it) = canned.iter_mut().find(|it| it.line == line) {
            it.answers.push_back((status, text));
        } else {
            let answers = VecDeque::from([(status, text)]);
            canned.push(Canned { line: line.to_owned(), answers });
        }
        self
    }

    pub(crate) fn asked(&self) -> Vec<RecordedCall> {
        self.asked.lock().unwrap().clone()
    }

    /// Runs the binary; it finds the server by the data directory.
    pub(crate) async fn usher(&self, typed: &str) -> Left {
        let folder = self.folder();
        usher(typed, &[("USHER_DATA_DIR", folder.to_str().unwrap())]).await
    }

    async fn answer(&self, request: Request<hyper::body::Incoming>) -> Response<Full<Bytes>> {
        let line = format!("{} {}", request.method(), request.uri());
        let header = |name: &str| {
            let value = request.headers().get(name).and_then(|it| it.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (bearer, key) = (header("authorization"), !header("idempotency-key").is_empty());
        let bytes = request.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        self.asked.lock().unwrap().push(RecordedCall { line: line.clone(), body, bearer, key });
        let mut canned = self.canned.lock().unwrap();
        let found = canned.iter_mut().find(|it| it.line == line);
        let (status, text) = match found {
            Some(it) if it.answers.len() > 1 => it.answers.pop_front().unwrap(),
            Some(it) => it.answers[0].clone(),
            None => {
                let why = format!("nothing is known of {line}");
                (404, json!({"code": "route_not_found", "detail": why}).to_string())
            }
        };
        Response::builder().status(status).body(Full::new(Bytes::from(text))).unwrap()
    }
}

/// Runs the binary with these environment variables only.
pub(crate) async fn usher(typed: &str, variables: &[(&str, &str)]) -> Left {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_usher"))
        .args(typed.split_whitespace())
        .env_clear()
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Left {
        code: output.status.code(),
        said: text(&output.stdout),
        complained: text(&output.stderr),
    }
}
