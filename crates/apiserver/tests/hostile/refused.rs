//! Requests that no client of good will sends.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt as _;
use hyper::Request;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, User};

use crate::{Hostile, MAPS, THINGS, define, items, thing};

/// Status and JSON of a response.
async fn answer(request: &Hostile, client: &Client) -> (u16, Value) {
    let (code, bytes) = request.send(client).await.expect("a response");
    (code, serde_json::from_slice(&bytes).expect("JSON"))
}

fn map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"},
    })
}

/// Red by: a body that is cut, of another media type or no object, and changes something.
// Requirement: AK-25
#[tokio::test]
async fn a_malformed_body_of_any_media_type_is_refused_and_changes_nothing() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    define(&client).await;
    let made = Hostile::to("POST", MAPS, "application/json", map("a").to_string());
    assert_eq!(answer(&made, &client).await.0, 201);
    let before = (items(&client, MAPS).await, items(&client, THINGS).await);
    let whole = thing().to_string();
    let cut = &whole.as_bytes()[..whole.len() - 1];
    let broken: [&[u8]; 7] = [
        cut,
        b"",
        b"\xff\xfe{}",
        b"[1, 2",
        b"{\"a\": }",
        b"\"text\"",
        b"k8s\0\x0a\xff\xff\xff\xff\x7f",
    ];
    let posts = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", ""];
    let patches = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ];
    for body in broken {
        for path in [MAPS, THINGS] {
            let named = format!("{path}/a");
            let created = posts.map(|media| Hostile::to("POST", path, media, body));
            let put = posts.map(|media| Hostile::to("PUT", &named, media, body));
            let changed = patches.map(|media| Hostile::to("PATCH", &named, media, body));
            for request in created.iter().chain(&put).chain(&changed) {
                let (code, status) = answer(request, &client).await;
                let shown = format!("{} {} {body:?}: {status}", request.method, request.media);
                assert!((400..=422).contains(&code), "{shown}");
                assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)));
                assert_eq!(status["status"], "Failure", "{shown}");
            }
        }
    }
    assert_eq!((items(&client, MAPS).await, items(&client, THINGS).await), before);
}

/// Red by: a media type that is taken for JSON.
// Requirement: AK-25
#[tokio::test]
async fn unknown_media_types_are_refused_by_name() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let text = map("a").to_string();
    let named = format!("{MAPS}/a");
    for media in ["text/plain", "application/xml", "application/json2", "x", "multipart/form-data"]
    {
        for (method, path) in [("POST", MAPS), ("PUT", &named), ("PATCH", &named)] {
            let request = Hostile::to(method, path, media, text.clone());
            let (code, status) = answer(&request, &client).await;
            let wanted = (415, &json!("UnsupportedMediaType"));
            assert_eq!((code, &status["reason"]), wanted, "{method} {media}: {status}");
        }
    }
    for accept in ["text/html", "image/png", "application/json;as=Nothing;g=meta.k8s.io;v=v1"] {
        let request = Hostile { accept, ..Hostile::to("GET", MAPS, "", "") };
        let (code, status) = answer(&request, &client).await;
        assert_eq!((code, &status["reason"]), (406, &json!("NotAcceptable")), "{accept}: {status}");
    }
    assert_eq!(items(&client, MAPS).await, Vec::<Value>::new());
}

/// Red by: a limit on the number of fields, or a field that is lost among many.
// Requirement: AK-25
#[tokio::test]
async fn ten_thousand_keys_are_kept_and_too_many_bytes_refused() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let mut many = map("many");
    let data = many["data"].as_object_mut().expect("a map");
    data.extend((0..10_000).map(|index| (format!("key-{index}"), json!(index.to_string()))));
    let wanted = many["data"].clone();
    let json = "application/json";
    let (code, made) = answer(&Hostile::to("POST", MAPS, json, many.to_string()), &client).await;
    assert_eq!((code, &made["data"]), (201, &wanted));
    let named = format!("{MAPS}/many");
    let merge = "application/merge-patch+json";
    let more = Hostile::to("PATCH", &named, merge, "{\"data\":{\"key-0\":null,\"one\":\"1\"}}");
    assert_eq!(answer(&more, &client).await.0, 200);
    let (_, read) = answer(&Hostile::to("GET", &named, "", ""), &client).await;
    let mut wanted = wanted;
    wanted.as_object_mut().map(|map| map.remove("key-0"));
    wanted["one"] = json!("1");
    assert_eq!(read["data"], wanted);
    for (size, refused) in [(1_100_000, 422), (3 * 1024 * 1024, 413)] {
        let mut large = map("large");
        large["data"]["k"] = json!("x".repeat(size));
        for media in [json, "application/yaml"] {
            let request = Hostile::to("POST", MAPS, media, large.to_string());
            let (code, status) = answer(&request, &client).await;
            assert_eq!((code, &status["kind"]), (refused, &json!("Status")), "{size} {media}");
        }
    }
    assert_eq!(items(&client, MAPS).await.len(), 1);
}

/// The status of a request with a bearer token.
async fn status_of(server: &ApiServer, token: &str) -> u16 {
    let request = Request::get(MAPS).header("authorization", format!("Bearer {token}"));
    let request = request.body(Body::empty()).expect("a request");
    let client = server.client_as(User::anonymous());
    client.send(request).await.expect("a response").status().as_u16()
}

async fn issued(server: &ApiServer) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts";
    let client = server.client();
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let made = Hostile::to("POST", path, "application/json", account.to_string());
    assert_eq!(answer(&made, &client).await.0, 201);
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
    let path = format!("{path}/robot/token");
    let (code, request) =
        answer(&Hostile::to("POST", &path, "application/json", asked.to_string()), &client).await;
    assert_eq!(code, 201, "{request}");
    request["status"]["token"].as_str().expect("a token").to_owned()
}

/// Red by: a signature that is not compared, or claims that are believed without one.
// Requirement: AK-41
#[tokio::test]
async fn forged_tokens_are_refused() {
    let server = ApiServer::builder().build().await.expect("a server");
    let token = issued(&server).await;
    assert_eq!(status_of(&server, &token).await, 403, "known, and without rights");
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, signature] = parts.as_slice() else { panic!("not three parts: {token}") };
    let claimed = URL_SAFE_NO_PAD.decode(claims).expect("base64");
    let mut claimed: Value = serde_json::from_slice(&claimed).expect("JSON");
    claimed["sub"] = json!("system:serviceaccount:kube-system:admin");
    claimed["exp"] = json!(i64::MAX);
    let claimed = URL_SAFE_NO_PAD.encode(claimed.to_string());
    let unsigned = URL_SAFE_NO_PAD.encode("{\"alg\":\"none\",\"typ\":\"JWT\"}");
    let other = ApiServer::builder().build().await.expect("a server");
    let forged = [
        format!("{header}.{claimed}.{signature}"),
        format!("{header}.{claims}."),
        format!("{header}.{claims}"),
        format!("{unsigned}.{claims}."),
        format!("{unsigned}.{claims}.{signature}"),
        format!("{header}.{claims}.{}", signature.to_uppercase()),
        format!("{token}{token}"),
        "..".to_owned(),
        "x".repeat(64 * 1024),
        issued(&other).await,
    ];
    for forged in forged {
        assert_eq!(status_of(&server, &forged).await, 401, "{forged:.80}");
    }
}

/// Red by: a watch that is served by a task of its own, or keeps what its client does not read.
// Requirement: AK-27
#[tokio::test]
async fn thousands_of_unread_watches_hinder_no_other() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let open = async || {
        let request = Request::get(format!("{MAPS}?watch=true&resourceVersion=0"));
        let request = request.body(Body::empty()).expect("a request");
        let opened = client.send(request).await.expect("a stream");
        assert_eq!(opened.status(), 200);
        opened.into_body()
    };
    let mut unread = Vec::new();
    for _ in 0..3_000 {
        unread.push(open().await);
    }
    let mut read = open().await;
    let count: usize = 200;
    for index in 0..count {
        let name = format!("a-{index}");
        let made = Hostile::to("POST", MAPS, "application/json", map(&name).to_string());
        assert_eq!(made.send(&client).await.expect("a response").0, 201);
    }
    let mut events = 0;
    let all = async {
        while events < count {
            let frame = read.frame().await.expect("a frame").expect("no error");
            let data = frame.into_data().expect("data");
            events += data.split(|byte| *byte == b'\n').count() - 1;
        }
    };
    tokio::time::timeout(Duration::from_mins(5), all).await.expect("every event");
    drop(unread);
    assert_eq!(items(&client, MAPS).await.len(), count);
}
