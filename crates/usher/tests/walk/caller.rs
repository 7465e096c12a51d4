//! A client of one address: it retries until a server responds, whichever server dies meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Timeout of one response.
const ANSWER: Duration = Duration::from_secs(10);
/// How long a wait may take while servers die.
const TIMEOUT: Duration = Duration::from_mins(5);
/// The delay between retries.
pub(crate) const SOON: Duration = Duration::from_millis(20);

/// The events of every resource that was provisioned and deleted, in order.
pub(crate) const ALL: [&str; 4] = ["Requested", "Ready", "Deleting", "Deleted"];

/// A client of one address with the token of one data directory.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) port: u16,
    pub(crate) data: PathBuf,
}

impl Caller {
    fn token(&self) -> String {
        let token = fs::read_to_string(self.data.join("admin.token")).unwrap_or_default();
        token.trim().to_owned()
    }

    /// One request; `None` without a response.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        self.ask_as(&self.token(), (method, path), body).await
    }

    /// One request with this bearer. The same body has the same idempotency key, for safe retries.
    pub(crate) async fn ask_as(
        &self,
        bearer: &str,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let key = if method == "POST" {
            format!("Idempotency-Key: {}\r\n", body.replace(|c: char| !c.is_alphanumeric(), "-"))
        } else {
            String::new()
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {bearer}\r\nContent-Type: application/json\r\n{key}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (status, body) = self.send(request.as_bytes()).await?;
        let body = if body.is_empty() { Value::Null } else { serde_json::from_str(&body).ok()? };
        Some((status, body))
    }

    /// Sends a raw request; status and body of the response.
    pub(crate) async fn send(&self, request: &[u8]) -> Option<(u16, String)> {
        let call = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
            stream.write_all(request).await.ok()?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.ok()?;
            let answer = String::from_utf8_lossy(&answer);
            let (head, body) = answer.split_once("\r\n\r\n")?;
            Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
        };
        timeout(ANSWER, call).await.ok().flatten()
    }

    /// The counters of the server, by name.
    pub(crate) async fn counters(&self) -> BTreeMap<String, u64> {
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\n\r\n",
            self.token()
        );
        let (_, text) = self.send(request.as_bytes()).await.unwrap();
        let ours = text.lines().filter(|it| it.starts_with("usher_"));
        let pair = |it: &str| {
            let (name, value) = it.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        ours.filter_map(pair).collect()
    }

    /// One request, repeated until it gets a response.
    pub(crate) async fn insist(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let begun = Instant::now();
        loop {
            match self.ask(method, path, body).await {
                Some((status, answer)) if status < 300 => return answer,
                Some((503, _)) | None => {}
                Some((status, answer)) => panic!("{method} {path}: {status} {answer}"),
            }
            assert!(begun.elapsed() < TIMEOUT, "no response: {method} {path}");
            sleep(SOON).await;
        }
    }

    /// All items of a list, page by page.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut after = String::new();
        loop {
            let joint = if path.contains('?') { '&' } else { '?' };
            let page = format!("{path}{joint}limit=500&after={after}");
            let page = self.insist("GET", &page, None).await;
            items.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut after),
                None => return items,
            }
        }
    }

    /// Declares a node; its id.
    pub(crate) async fn provision(&self, name: &str) -> String {
        let made = self.insist("POST", "/v1/resources", Some(&declaration(name, &json!({})))).await;
        made["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn deprovision(&self, id: &str) {
        self.insist("DELETE", &format!("/v1/resources/{id}"), None).await;
    }

    /// Waits until a resource is in a phase.
    pub(crate) async fn until_phase(&self, id: &str, phase: &str) {
        let begun = Instant::now();
        loop {
            let it = self.insist("GET", &format!("/v1/resources/{id}"), None).await;
            if it["phase"] == phase {
                return;
            }
            if begun.elapsed() > TIMEOUT {
                let why = self.insist("GET", &format!("/v1/resources/{id}/why"), None).await;
                panic!("never {phase}: {why}");
            }
            sleep(SOON).await;
        }
    }

    /// Provisions a node and tears it down; its id.
    pub(crate) async fn walk(&self, name: &str) -> String {
        let id = self.provision(name).await;
        self.until_phase(&id, "Ready").await;
        self.deprovision(&id).await;
        self.until_phase(&id, "Deleted").await;
        id
    }

    /// The events of every resource, in order; none occurs twice.
    pub(crate) async fn all_events(&self) -> BTreeMap<String, Vec<String>> {
        let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for event in self.list("/v1/events").await {
            let word = |key: &str| event[key].as_str().unwrap().to_owned();
            assert!(ids.insert(word("id")), "duplicate event: {event}");
            if !word("type").starts_with("broker.") {
                let version =
                    event["machine"].as_str().map(|it| format!("{it} {}", event["version"]));
                assert!(version.is_some_and(|it| ids.insert(it)), "duplicate event: {event}");
                continue;
            }
            let what = word("type").replace("broker.ProvisionedResource", "");
            events.entry(word("resource")).or_default().push(what);
        }
        events
    }

    /// Exactly these resources have events, each the complete sequence once and in order.
    pub(crate) async fn expect_all_events(&self, ids: &[String]) {
        let begun = Instant::now();
        let mut events = self.all_events().await;
        // An open transaction anywhere on the server holds back later events.
        while events.values().flatten().count() < ids.len() * ALL.len() && begun.elapsed() < TIMEOUT
        {
            sleep(SOON).await;
            events = self.all_events().await;
        }
        for (id, events) in &events {
            assert_eq!(events, &ALL, "{id}");
        }
        let walked: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(events.keys().collect::<BTreeSet<_>>(), walked);
    }

    /// Nothing is left in the control plane: no orphan, live token, registered node or machine
    /// that is not free.
    pub(crate) async fn nothing_is_left_inside(&self) {
        assert_eq!(self.list("/v1/orphans").await, Vec::<Value>::new());
        for token in self.list("/v1/tokens").await {
            assert_ne!(token["state"], "redeemable", "{token}");
        }
        assert_eq!(self.list("/v1/nodes").await, Vec::<Value>::new());
        for machine in self.list("/v1/fleet/machines").await {
            assert_eq!(
                (&machine["phase"], &machine["holder"]),
                (&json!("Speculative"), &Value::Null)
            );
        }
        for node in self.list("/v1/nodes?all=true").await {
            assert_eq!(node["stage"], "deregistered", "{node}");
        }
    }
}

/// The declaration of the demo node.
pub(crate) fn declaration(name: &str, parameters: &Value) -> Value {
    json!({
        "name": name, "project": "demo", "blueprint": "local-node", "credential": "local",
        "parameters": parameters,
    })
}
