//! Replays one scenario against a server of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Request;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use usher_apiserver::{ApiServer, User};

use crate::compare::{self, Names, fill, filled, ordered};
use crate::events;
use crate::hook::{self, Hook};

const PATIENCE: usize = 2000;

/// The differences between recorded and actual responses.
pub(crate) fn play(scenario: &Value) -> Vec<String> {
    let paused = !scenario["name"].as_str().unwrap_or_default().starts_with("webhook");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(paused)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let server = ApiServer::builder().build().await.expect("a server");
        let mut player = Player::new(server);
        let hook = if paused { None } else { Some(hook::start().await) };
        if let Some(hook) = &hook {
            let down = "https://127.0.0.1:9";
            let authority = hook.authority.as_str();
            for (name, value) in
                [("webhook", hook.url.as_str()), ("webhook_ca", authority), ("webhook_down", down)]
            {
                player.names.insert(name.to_owned(), value.to_owned());
            }
        }
        player.fixtures().await;
        let (mut found, names) = player.scenario(scenario).await;
        if let Some(hook) = hook {
            found.extend(review_differences(scenario, &hook, &names));
        }
        found
    })
}

/// Every recorded admission review was received, and no other. The user differs.
fn review_differences(scenario: &Value, hook: &Hook, names: &Names) -> Vec<String> {
    let bare = |review: &Value| {
        let mut review = ordered(review);
        let user = review.pointer_mut("/request/userInfo").and_then(Value::as_object_mut);
        if let Some(user) = user {
            user.remove("extra");
            user.remove("uid");
        }
        review
    };
    let asked = hook.asked.lock().expect("asked").clone();
    let wanted = scenario["admission_reviews"].as_array().cloned().unwrap_or_default();
    let agree = |(mode, review): &(String, Value), recorded: &Value| {
        recorded["mode"].as_str() == Some(mode)
            && compare::differences(&bare(&recorded["normalised"]), &bare(review), names).is_empty()
    };
    let mut found = Vec::new();
    for recorded in &wanted {
        if !asked.iter().any(|asked| agree(asked, recorded)) {
            let mode = recorded["mode"].as_str().unwrap_or_default();
            found.push(format!("a review was not asked for: {mode}"));
            let nearest = asked.iter().find(|(asked, _)| asked == mode);
            if let Some((_, review)) = nearest {
                let lines =
                    compare::differences(&bare(&recorded["normalised"]), &bare(review), names);
                found.extend(lines);
            }
        }
    }
    for asked in &asked {
        if !wanted.iter().any(|recorded| agree(asked, recorded)) {
            found.push(format!("a review was sent that was not recorded: {}", asked.0));
        }
    }
    found
}

struct Player {
    server: ApiServer,
    admin: Client,
    names: Names,
    watches: BTreeMap<String, Watch>,
    timing: bool,
    wrong: Vec<String>,
}

struct Watch {
    step: Value,
    code: Value,
    lines: Arc<Mutex<Vec<u8>>>,
    task: JoinHandle<()>,
}

/// The recorded parts of a response.
struct Got {
    status: u16,
    content_type: String,
    warnings: Vec<String>,
    body: Vec<u8>,
}

impl Player {
    fn new(server: ApiServer) -> Self {
        let admin = server.client();
        let names = Names::new();
        Self { server, admin, names, watches: BTreeMap::new(), timing: false, wrong: Vec::new() }
    }

    async fn fixtures(&mut self) {
        let fixtures = crate::read("fixtures");
        for step in fixtures["steps"].as_array().expect("steps") {
            let found = self.step(step).await;
            self.wrong.extend(found);
        }
    }

    async fn scenario(mut self, scenario: &Value) -> (Vec<String>, Names) {
        self.timing = scenario.get("timing").is_some();
        if let Some(namespace) = scenario["namespace"].as_str() {
            let body = json!({"kind": "Namespace", "metadata": {"name": namespace}});
            let request = json!({
                "method": "POST",
                "path": "/api/v1/namespaces",
                "headers": {"Content-Type": "application/json"},
                "body": body,
            });
            assert_eq!(self.send(&request).await.status, 201);
        }
        let mut found = std::mem::take(&mut self.wrong);
        for (index, step) in scenario["steps"].as_array().expect("steps").iter().enumerate() {
            let differences = self.step(step).await;
            if !differences.is_empty() {
                let request = &step["request"];
                found.push(format!("[{index}] {} {}", request["method"], request["path"]));
                found.extend(differences);
            }
        }
        let open: Vec<String> = self.watches.keys().cloned().collect();
        for name in open {
            found.extend(self.collect(&name).await);
        }
        self.server.shutdown().await;
        (found, self.names)
    }

    async fn step(&mut self, step: &Value) -> Vec<String> {
        if let Some(seconds) = step["sleep_seconds"].as_f64() {
            if seconds >= 15.0 {
                self.server.forget_history();
            }
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            return Vec::new();
        }
        if let Some(name) = step["collect"].as_str() {
            return self.collect(name).await;
        }
        if step.get("watch").is_some() && step["normalised"].get("events").is_some() {
            self.open(step).await;
            return Vec::new();
        }
        let mut got = self.send(&step["request"]).await;
        for _ in 0..PATIENCE {
            if step.get("repeated_until").is_none_or(|until| reached(until, &got)) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            got = self.send(&step["request"]).await;
        }
        self.compare(step, &got)
    }

    fn compare(&mut self, step: &Value, got: &Got) -> Vec<String> {
        let normalised = &step["normalised"];
        let parsed: Option<Value> = serde_json::from_slice(&got.body).ok();
        let mut body = match parsed {
            Some(value) if got.content_type.starts_with("application/json") => value,
            Some(_) | None => Value::String(String::from_utf8_lossy(&got.body).into_owned()),
        };
        self.capture(step, &body);
        if let Some(picked) = normalised.get("picked") {
            body = pick(&body, picked);
        }
        if let Some(sorted) = step.get("sorted") {
            sort(&mut body, sorted);
        }
        if step["unordered"].as_bool().unwrap_or_default() {
            unorder(&mut body);
        }
        let wanted = json!({
            "status": normalised["status"],
            "content_type": normalised["content_type"],
            "warnings": normalised["warnings"],
        });
        let ours = json!({
            "status": got.status,
            "content_type": got.content_type,
            "warnings": got.warnings,
        });
        let mut found = compare::differences(&wanted, &ours, &self.names);
        let body = ordered(&body);
        found.extend(compare::differences(&normalised["body"], &body, &self.names));
        found
    }

    /// Captures the values that the scenario names, from the same pointers in our response.
    fn capture(&mut self, step: &Value, body: &Value) {
        let Some(captured) = step["captured"].as_object() else { return };
        for (name, value) in captured {
            let value = value.as_str().expect("a captured text");
            let mut places = Vec::new();
            find(&step["response"]["body"], value, String::new(), &mut places);
            let shown = format!("${{{name}}}");
            let normalised = &step["normalised"]["body"];
            let named = places
                .iter()
                .find(|place| normalised.pointer(place).and_then(Value::as_str) == Some(&shown));
            let Some(place) = named.or(places.first()) else { continue };
            if let Some(text) = body.pointer(place).and_then(Value::as_str) {
                self.names.insert(name.clone(), text.to_owned());
                if place == "/metadata/resourceVersion" && body.get("items").is_some() {
                    self.names.insert(format!("{}{name}", compare::LIST), String::new());
                }
            }
        }
    }

    async fn send(&self, request: &Value) -> Got {
        let response = self.ask(request).await;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let warnings = headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
        let warnings = warnings.map(unquoted).collect();
        let content_type = text("content-type");
        let body = response.into_body().collect().await.expect("a body").to_bytes().to_vec();
        Got { status, content_type, warnings, body }
    }

    async fn ask(&self, request: &Value) -> hyper::Response<Body> {
        let mut url = fill(request["path"].as_str().expect("a path"), &self.names);
        let query = request["query"].as_object().into_iter().flatten();
        let query: Vec<String> = query
            .map(|(key, value)| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                format!("{key}={}", encoded(&fill(&value, &self.names)))
            })
            .collect();
        if !query.is_empty() {
            url = format!("{url}?{}", query.join("&"));
        }
        let mut builder = Request::builder()
            .method(request["method"].as_str().expect("a method"))
            .uri(url)
            .header("user-agent", "corpus/1");
        for (key, value) in request["headers"].as_object().into_iter().flatten() {
            builder = builder.header(key, value.as_str().expect("a header"));
        }
        let body = self.body(request);
        let request_made = builder.body(Body::from(body)).expect("a request");
        let anonymous = request["anonymous"].as_bool().unwrap_or_default();
        let client =
            if anonymous { self.server.client_as(User::anonymous()) } else { self.admin.clone() };
        client.send(request_made).await.expect("a response")
    }

    fn body(&self, request: &Value) -> Vec<u8> {
        if let Some(raw) = request["raw_body"].as_str() {
            return fill(raw, &self.names).into_bytes();
        }
        if let Some(fill) = request.get("body_fill") {
            let mut object = fill["object"].clone();
            let bytes = usize::try_from(fill["bytes"].as_u64().expect("a size")).expect("a size");
            object["data"] = json!({"fill": "x".repeat(bytes)});
            return spaced(&object).into_bytes();
        }
        if let Some(repeat) = request.get("body_repeat") {
            let count = usize::try_from(repeat["count"].as_u64().expect("a count")).expect("so");
            let list: Vec<Value> = std::iter::repeat_n(repeat["item"].clone(), count).collect();
            return spaced(&Value::Array(list)).into_bytes();
        }
        match request.get("body") {
            None | Some(Value::Null) => Vec::new(),
            Some(body) => spaced(&filled(body, &self.names)).into_bytes(),
        }
    }

    async fn open(&mut self, step: &Value) {
        let response = self.ask(&step["request"]).await;
        let code = json!(response.status().as_u16());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let theirs = lines.clone();
        let task = tokio::spawn(async move {
            let mut body = response.into_body();
            while let Some(Ok(frame)) = body.frame().await {
                if let Some(data) = frame.data_ref() {
                    theirs.lock().expect("lines").extend_from_slice(data);
                }
            }
        });
        let name = step["watch"].as_str().expect("a name").to_owned();
        self.watches.insert(name, Watch { step: step.clone(), code, lines, task });
    }

    async fn collect(&mut self, name: &str) -> Vec<String> {
        let Some(mut watch) = self.watches.remove(name) else { return Vec::new() };
        let normalised = &watch.step["normalised"];
        let by_server = normalised["ended_by"].as_str() == Some("server");
        let patience = Duration::from_secs(if by_server { 60 } else { 1 });
        let ended = tokio::time::timeout(patience, &mut watch.task).await.is_ok();
        watch.task.abort();
        let lines = watch.lines.lock().expect("lines").clone();
        let events: Vec<Value> = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| ordered(&serde_json::from_slice(line).expect("an event")))
            .collect();
        let mut found = Vec::new();
        if watch.code != normalised["status"] {
            found.push(format!("  status: expected {}, got {}", normalised["status"], watch.code));
        }
        if ended != by_server {
            found.push(format!("  ended by server: expected {by_server}, got {ended}"));
        }
        let differences = events::differences(normalised, events, self.timing, &self.names);
        found.extend(differences);
        if !found.is_empty() {
            found.insert(0, format!("watch {name}"));
        }
        found
    }
}

fn reached(until: &Value, got: &Got) -> bool {
    if let Some(status) = until["status"].as_u64() {
        return u64::from(got.status) == status;
    }
    let body: Value = serde_json::from_slice(&got.body).unwrap_or_default();
    if let Some(text) = until["contains"].as_str() {
        return String::from_utf8_lossy(&got.body).contains(text);
    }
    let found = body.pointer(until["pointer"].as_str().unwrap_or_default());
    if until["absent"].as_bool().unwrap_or_default() {
        return found.is_none();
    }
    match until.get("equals") {
        Some(wanted) => found == Some(wanted),
        None => found.is_some(),
    }
}

fn find(value: &Value, wanted: &str, at: String, places: &mut Vec<String>) {
    match value {
        Value::String(text) if text == wanted => places.push(at),
        Value::Array(list) => {
            for (index, item) in list.iter().enumerate() {
                find(item, wanted, format!("{at}/{index}"), places);
            }
        }
        Value::Object(map) => {
            for (key, child) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                find(child, wanted, format!("{at}/{key}"), places);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The elements that the recording kept of a long list.
fn pick(body: &Value, picked: &Value) -> Value {
    let list = body.pointer(picked["list"].as_str().unwrap_or_default());
    let key = picked["key"].as_str().unwrap_or_default();
    let values = picked["values"].as_array().cloned().unwrap_or_default();
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items
        .filter(|item| item.pointer(key).is_some_and(|name| values.contains(name)))
        .cloned()
        .collect()
}

fn sort(body: &mut Value, sorted: &Value) {
    let key = sorted["key"].as_str().unwrap_or_default().to_owned();
    let list = body.pointer_mut(sorted["list"].as_str().unwrap_or_default());
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.sort_by_cached_key(|item| item.pointer(&key).map(ToString::to_string));
    }
}

/// Sorts the causes of an error and its message.
fn unorder(body: &mut Value) {
    if let Some(causes) = body.pointer_mut("/details/causes").and_then(Value::as_array_mut) {
        causes
            .sort_by_cached_key(|cause| (cause["field"].to_string(), cause["message"].to_string()));
    }
    let Some(message) = body["message"].as_str() else { return };
    let Some((head, list)) = message.split_once(": [") else { return };
    let mut parts: Vec<&str> = list.trim_end_matches(']').split(", spec.").collect();
    for part in &mut parts {
        *part = part.trim_start_matches("spec.");
    }
    parts.sort_unstable();
    body["message"] = json!(format!("{head}: [spec.{}]", parts.join(", spec.")));
}

/// JSON with spaces, as the recording client sent it.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", json!(key), spaced(value)))
                .collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn unquoted(header: &str) -> String {
    let text = header.strip_prefix("299 - \"").and_then(|text| text.strip_suffix('"'));
    let text = text.unwrap_or(header);
    text.replace("\\\"", "\"").replace("\\\\", "\\")
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}
