//! One of the two servers: sends requests, waits for its controllers, cleans up.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use crate::request::{JSON, MERGE, Request};
use crate::symbols::Symbols;
use crate::world::{Kind, WIDGET};

/// How long cleaning may take.
const CLEANING: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(15);
const AGENT: &str = "differ/1";
/// What stands for the events of a watch that did not end.
pub(crate) const UNSEEN: &str = "the mark was not seen in time";

/// A server with what it chose in this seed.
pub(crate) struct Side {
    pub(crate) client: Client,
    pub(crate) symbols: Symbols,
    /// How long a controller or a watch may take.
    pub(crate) patience: Duration,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

/// A client of the cluster that a kubeconfig names. It tries nothing twice.
pub(crate) async fn real(kubeconfig: &str) -> Client {
    let config = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let mut config = kube_client::Config::from_custom_kubeconfig(config, &options)
        .await
        .expect("a configuration");
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

/// The embedded server.
pub(crate) async fn embedded() -> ApiServer {
    ApiServer::builder().build().await.expect("a server")
}

/// Sends a request; the placeholders are filled already.
pub(crate) async fn send(
    client: &Client,
    (user, method, target): (&str, &str, &str),
    (media, accept, body): (&str, &str, Option<String>),
) -> Answer {
    let mut request = hyper::Request::builder()
        .method(method)
        .uri(target)
        .header("accept", accept)
        .header("user-agent", AGENT);
    let (user, group) = user.split_once('/').unwrap_or((user, ""));
    for (header, value) in [("impersonate-user", user), ("impersonate-group", group)] {
        if !value.is_empty() {
            request = request.header(header, value);
        }
    }
    if body.is_some() {
        request = request.header("content-type", media);
    }
    let body = Body::from(body.unwrap_or_default().into_bytes());
    let request = request.body(body).expect("a request");
    let response = client.send(request).await.expect("a response");
    let header = |name: &str| {
        let values = response.headers().get_all(name).iter();
        values.map(|value| value.to_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    let (status, media, warnings) =
        (response.status().as_u16(), header("content-type").join(","), header("warning"));
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let body = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Answer { status, media, warnings, body }
}

impl Side {
    /// Sends a request and returns the answer without what the server chose.
    pub(crate) async fn ask(&mut self, request: &Request) -> Answer {
        let target = self.symbols.resolved(&request.target());
        let body =
            (!request.body.is_null()).then(|| self.symbols.resolved(&request.body.to_string()));
        let sent = (request.user, request.method, target.as_str());
        let mut answer = send(&self.client, sent, (request.media, request.accept, body)).await;
        self.symbols.learn(request.plural, &answer.body);
        let prefix = request.body.pointer("/metadata/generateName").and_then(Value::as_str);
        if let Some(prefix) = prefix {
            let prefix = self.symbols.resolved(prefix);
            self.symbols.learn_name(&prefix, &answer.body);
        }
        answer.body = self.symbols.normalised(&answer.body);
        for warning in &mut answer.warnings {
            *warning = self.symbols.name(warning);
        }
        answer
    }

    /// The objects of a kind that belong to this seed.
    async fn items(&self, kind: Kind) -> Vec<Value> {
        let path = self.symbols.resolved(&kind.path());
        let answer = self.get(&path).await;
        let items = answer["items"].as_array().cloned().unwrap_or_default();
        let prefix = self.symbols.resolved(&kind.name(0)).trim_end_matches('0').to_owned();
        let own = |item: &Value| {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            name != "default" && (kind.namespaced || name.starts_with(&prefix))
        };
        items.into_iter().filter(own).collect()
    }

    async fn get(&self, path: &str) -> Value {
        send(&self.client, ("", "GET", path), (JSON, JSON, None)).await.body
    }

    /// Every object of these kinds, without what the server chose.
    pub(crate) async fn all(&mut self, kinds: &[Kind]) -> Value {
        let mut all = json!({});
        for kind in kinds {
            let items = self.items(*kind).await;
            let all_of_kind = self.symbols.normalised(&json!({"items": items}));
            all[kind.plural] = all_of_kind["items"].clone();
        }
        all
    }

    /// Waits until the collector has nothing left to do; `false` if it always had.
    pub(crate) async fn settles(&self, kinds: &[Kind]) -> bool {
        let started = tokio::time::Instant::now();
        loop {
            let mut objects = Vec::new();
            for kind in kinds {
                objects.extend(self.items(*kind).await);
            }
            if is_settled(&objects) {
                return true;
            }
            if started.elapsed() > self.patience {
                return false;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The revision of a kind's list.
    pub(crate) async fn revision(&self, kind: Kind) -> String {
        let path = format!("{}?limit=1", self.symbols.resolved(&kind.path()));
        let body = self.get(&path).await;
        body["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned()
    }

    /// The events of a kind since a revision, by selector and object, up to those of a mark.
    pub(crate) async fn events(&mut self, kind: Kind, revision: &str) -> Value {
        let mark = self.symbols.resolved(&kind.name(99));
        let path = self.symbols.resolved(&kind.path());
        let mut body = crate::objects::head(kind, &mark);
        body["metadata"]["labels"] = json!({"l": "a"});
        if kind.custom {
            body["spec"] = json!({"color": "red"});
        }
        let sent = ("", "POST", path.as_str());
        let made = send(&self.client, sent, (JSON, JSON, Some(body.to_string()))).await;
        assert_eq!(made.status, 201, "a mark: {}", made.body);
        let mut events = json!({});
        for selector in selectors(kind) {
            let target = format!("{path}?watch=1&resourceVersion={revision}{selector}");
            let lines = tokio::time::timeout(self.patience, self.watch(&target, &mark)).await;
            events[selector] = match lines {
                Ok(lines) => self.by_object(lines, &mark),
                Err(_) => json!(UNSEEN),
            };
        }
        events
    }

    /// The events up to a mark, by object: collectors of several threads have no order between
    /// objects.
    fn by_object(&mut self, lines: Vec<Value>, mark: &str) -> Value {
        let prefix = mark.trim_end_matches("99").to_owned();
        let mut objects: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for event in lines {
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
            if name.starts_with(&prefix) {
                objects.entry(self.symbols.name(name)).or_default().push(event);
            }
        }
        let mut events = json!({});
        for (name, own) in objects {
            let own = own.iter().map(|event| self.symbols.normalised(event)).collect();
            events[name] = Value::Array(own);
        }
        events
    }

    async fn watch(&self, target: &str, mark: &str) -> Vec<Value> {
        let request = hyper::Request::get(target).header("user-agent", AGENT);
        let request = request.body(Body::empty()).expect("a request");
        let response = self.client.send(request).await.expect("a response");
        let mut body = response.into_body();
        let (mut text, mut events) = (Vec::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.expect("a frame").into_data() else { continue };
            text.extend_from_slice(&data);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).expect("an event");
                if event["object"]["metadata"]["name"] == mark {
                    return events;
                }
                events.push(event);
            }
        }
        events.push(json!("the watch ended before the mark"));
        events
    }

    /// Deletes everything of these kinds.
    pub(crate) async fn clean(&self, kinds: &[Kind]) {
        let started = tokio::time::Instant::now();
        loop {
            let mut left = 0;
            for kind in kinds {
                for item in self.items(*kind).await {
                    left += 1;
                    self.remove(*kind, &item).await;
                }
            }
            if left == 0 {
                return;
            }
            assert!(started.elapsed() < CLEANING, "objects that cannot be deleted");
        }
    }

    async fn remove(&self, kind: Kind, item: &Value) {
        let name = item["metadata"]["name"].as_str().expect("a name");
        let target = self.symbols.resolved(&kind.named(name));
        if !item["metadata"]["finalizers"].is_null() {
            let body = r#"{"metadata":{"finalizers":null}}"#.to_owned();
            send(&self.client, ("", "PATCH", &target), (MERGE, JSON, Some(body))).await;
        }
        let body = r#"{"propagationPolicy":"Background"}"#.to_owned();
        send(&self.client, ("", "DELETE", &target), (JSON, JSON, Some(body))).await;
    }
}

/// What is watched of a kind: everything, and what matches selectors that the mark matches too.
fn selectors(kind: Kind) -> &'static [&'static str] {
    if kind == WIDGET {
        return &["", "&labelSelector=l%3Da", "&fieldSelector=spec.color%3Dred"];
    }
    &["", "&labelSelector=l%3Da"]
}

/// Whether the collector has nothing to do among these objects, which are all that there are.
fn is_settled(objects: &[Value]) -> bool {
    let of = |uid: &Value| objects.iter().find(|object| object["metadata"]["uid"] == *uid);
    objects.iter().all(|object| {
        let has = |name: &str| {
            let finalizers = object["metadata"]["finalizers"].as_array();
            finalizers.is_some_and(|all| all.iter().any(|it| it == name))
        };
        let ends = is_deleted(object);
        if ends && has("orphan") {
            return false;
        }
        let uid = &object["metadata"]["uid"];
        let dependents = || objects.iter().filter(move |other| owns(uid, other).is_some());
        if ends && has("foregroundDeletion") {
            let held =
                dependents().any(|other| owns(uid, other) == Some(true) && is_deleted(other));
            let idle = dependents().all(|other| is_deleted(other) || lives_on(other, &of));
            return held && idle;
        }
        ends || !is_dangling(object, &of)
    })
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// Whether an object names this owner, and if so, whether it blocks it.
fn owns(uid: &Value, object: &Value) -> Option<bool> {
    let mut found = owners(object).filter(|owner| owner["uid"] == *uid);
    found.next().map(|owner| owner["blockOwnerDeletion"] == true)
}

/// Whether another owner, which is not being deleted in the foreground, keeps an object.
fn lives_on<'a>(object: &Value, of: &impl Fn(&Value) -> Option<&'a Value>) -> bool {
    owners(object).any(|owner| of(&owner["uid"]).is_some_and(|owner| !waits(owner)))
}

fn waits(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    is_deleted(object)
        && finalizers.is_some_and(|all| all.iter().any(|it| it == "foregroundDeletion"))
}

/// Whether an object has owners and all of them are gone.
fn is_dangling<'a>(object: &Value, of: &impl Fn(&Value) -> Option<&'a Value>) -> bool {
    owners(object).next().is_some()
        && owners(object).all(|owner| of(&owner["uid"]).is_none() && may_be_gone(object, owner))
}

/// An owner in a namespace is never looked for on behalf of an object that has none.
fn may_be_gone(object: &Value, owner: &Value) -> bool {
    !object["metadata"]["namespace"].is_null() || owner["kind"] == "Plinth"
}
