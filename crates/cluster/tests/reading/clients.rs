//! Connecting, bounds and the one request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault};
use usher_cluster::answer::Failure;
use usher_cluster::client::{Access, Bounds, Client};

use crate::rig::{self, MAPS, call, count, done, map, server};

/// The kubeconfig of a server that listens.
async fn kubeconfig(server: &ApiServer) -> Value {
    server.serve(([127, 0, 0, 1], 0).into()).await.expect("a listener");
    serde_json::from_str(&server.kubeconfig().expect("a kubeconfig")).expect("JSON")
}

fn written(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("config");
    std::fs::write(&file, text).expect("a file");
    file
}

async fn connected(file: PathBuf, context: Option<&str>) -> Result<Client, String> {
    let access = Access::Kubeconfig { file, context: context.map(str::to_owned) };
    Client::connect(&access, Bounds::default()).await.map_err(|error| error.to_string())
}

// Requirement: KA-1
#[tokio::test]
async fn a_kubeconfig_and_a_context_name_the_cluster() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let file = written(folder.path(), &kubeconfig(&server).await.to_string());
    done(&server, ("POST", MAPS), &map("a")).await;
    for context in [None, Some("embedded")] {
        let client = connected(file.clone(), context).await.expect("a client");
        let found = call(&client, ("GET", &format!("{MAPS}/a")), &Value::Null).await;
        assert_eq!(found.expect("a map")["metadata"]["name"], "a");
    }
}

// Requirement: KA-1
#[tokio::test]
async fn a_kubeconfig_that_names_nothing_is_refused_with_one_sentence() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let whole = kubeconfig(&server).await;
    let changed = |pointer: &str, value: Value| {
        let mut config = whole.clone();
        *config.pointer_mut(pointer).expect("a field") = value;
        config.to_string()
    };
    let authority = "/clusters/0/cluster/certificate-authority-data";
    let token = whole["users"][0]["user"]["token"].as_str().expect("a token").to_owned();
    let cases = [
        (changed("/current-context", json!("")), None, "has no current context"),
        (whole.to_string(), Some("other"), "no context \"other\", only \"embedded\""),
        (changed("/clusters/0/name", json!("x")), None, "no cluster \"embedded\", which its"),
        (changed("/users/0/name", json!("x")), None, "no user \"admin\", which its context"),
        (changed(authority, json!("%%")), None, "failed to load certificate authority"),
        (changed(authority, json!("bm9uZQ==")), None, "authority has no certificate"),
        (changed("/clusters/0/cluster/server", json!("::")), None, "failed to parse cluster url"),
        (format!("users: [{token}\n"), None, "is malformed in line"),
        (format!("users: {token}\n"), None, "is malformed"),
        (String::new(), None, "has no current context"),
    ];
    for (text, context, wanted) in cases {
        let file = written(folder.path(), &text);
        let error = connected(file, context).await.expect_err(wanted);
        assert!(error.contains(wanted), "{error}");
        let is_safe = !error.contains('\n') && !error.contains(&token);
        assert!(is_safe && error.contains("config"), "{error}");
    }
    let missing = folder.path().join("none");
    let error = connected(missing.clone(), None).await.expect_err("no file");
    assert_eq!(error, format!("kubeconfig {} does not exist", missing.display()));
    let error = connected(folder.path().to_owned(), None).await.expect_err("a folder");
    assert!(error.contains("cannot be read"), "{error}");
    let error = Client::connect(&Access::InCluster, Bounds::default()).await;
    let error = error.expect_err("no pod").to_string();
    assert!(error.starts_with("this process does not run in a pod"), "{error}");
}

/// Red by: a client that retries by itself, as the library does by default.
// Requirement: KA-2
#[tokio::test]
async fn a_refused_request_is_sent_exactly_once() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let file = written(folder.path(), &kubeconfig(&server).await.to_string());
    let client = connected(file, None).await.expect("a client");
    for code in [429, 500, 503, 504] {
        server.set_faults(move |asked| match asked.resource.as_str() {
            "configmaps" => Fault::Refuse(code),
            _ => Fault::None,
        });
        let before = [count(&server, "get", "configmaps"), count(&server, "create", "configmaps")];
        let read = call(&client, ("GET", &format!("{MAPS}/a")), &Value::Null).await;
        let write = call(&client, ("POST", MAPS), &map("a")).await;
        for answer in [read, write] {
            let Err(Failure::Refused(refusal)) = answer else { panic!("{answer:?}") };
            assert_eq!(refusal.code, code);
        }
        let after = [count(&server, "get", "configmaps"), count(&server, "create", "configmaps")];
        assert_eq!(after, before.map(|count| count + 1), "{code}");
    }
}

// Requirement: KA-2
#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_ends_at_its_bound() {
    let server = server().await;
    let bounds = Bounds { request: Duration::from_secs(3), ..Bounds::default() };
    let client = Client::over(server.client(), bounds);
    server.set_faults(|asked| match asked.verb.as_str() {
        "create" => Fault::NeverAnswer,
        _ => Fault::None,
    });
    let asked = tokio::time::Instant::now();
    let answer = call(&client, ("POST", MAPS), &map("a")).await;
    assert_eq!(answer, Err(Failure::NoAnswer("no answer within 3 s".to_owned())));
    assert_eq!(asked.elapsed(), bounds.request, "by the paused clock");
    let found = call(&rig::admin(&server), ("GET", &format!("{MAPS}/a")), &Value::Null).await;
    assert!(found.is_ok(), "it arrived all the same");
}

// Requirement: KA-2
#[tokio::test]
async fn a_closed_port_is_no_answer() {
    let (server, folder) = (server().await, tempfile::tempdir().expect("a folder"));
    let config = kubeconfig(&server).await;
    let file = written(folder.path(), &config.to_string());
    let client = connected(file, None).await.expect("a client");
    server.shutdown().await;
    let answer = call(&client, ("GET", MAPS), &Value::Null).await;
    assert!(matches!(answer, Err(Failure::NoAnswer(_))), "{answer:?}");
}
