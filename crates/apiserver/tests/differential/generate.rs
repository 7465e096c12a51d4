//! The requests of a seed.

use serde_json::{Value, json};

use crate::objects::{self, object};
use crate::random::Random;
use crate::request::{APPLY, JSON_PATCH, MERGE, Request, STRATEGIC};
use crate::scenes::scene;
use crate::world::{
    ACCOUNT, CONFIG_MAP, GADGET, KINDS, Kind, LEASE, PLINTH, SECRET, USERS, WIDGET,
};

/// The most requests of a seed.
const MOST: usize = 40;
const FEWEST: usize = 12;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const PARTIAL_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

const LABELS: [&str; 9] =
    ["l=a", "l!=a", "l in (a,b)", "l notin (a)", "l", "!l", "l=a,m=b", "l in", "l==a"];
const FIELDS: [&str; 6] = [
    "metadata.name=x1",
    "metadata.name!=x1",
    "metadata.namespace=${ns}",
    "spec.color=red",
    "data.k0=a",
    "metadata.name=x1,metadata.namespace=other",
];

/// What a seed is about: its kinds, and whether its objects own one another.
#[derive(Debug, Clone)]
pub(crate) struct Theme {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) owners: bool,
    /// Names in the pool.
    pub(crate) names: usize,
}

/// The theme and the requests of a seed.
pub(crate) fn requests(seed: u64) -> (Theme, Vec<Request>) {
    let mut random = Random::new(seed);
    let theme = theme(&mut random);
    let count = FEWEST + random.below(MOST - FEWEST + 1);
    let mut requests = Vec::new();
    while requests.len() < count {
        if random.percent(25) {
            requests.extend(scene(&mut random, &theme));
            continue;
        }
        let request = request(&mut random, &theme);
        let pages = pages(&request);
        requests.push(request);
        requests.extend(pages);
    }
    requests.truncate(count);
    (theme, requests)
}

/// The next two pages of a list with a limit.
pub(crate) fn pages(request: &Request) -> Vec<Request> {
    if request.method != "GET" || !request.query.iter().any(|(key, _)| *key == "limit") {
        return Vec::new();
    }
    let token = format!("${{continue:{}}}", request.plural);
    let mut next = request.clone().with("continue", token);
    next.query.retain(|(key, _)| !key.starts_with("resourceVersion"));
    vec![next.clone(), next]
}

fn theme(random: &mut Random) -> Theme {
    if random.percent(40) {
        return Theme { kinds: vec![CONFIG_MAP, GADGET, PLINTH], owners: true, names: 3 };
    }
    let mut kinds = vec![KINDS[random.below(KINDS.len())]];
    for _ in 0..random.below(2) {
        let more = KINDS[random.below(KINDS.len())];
        if !kinds.contains(&more) {
            kinds.push(more);
        }
    }
    if random.percent(50) && !kinds.contains(&WIDGET) {
        kinds.push(WIDGET);
    }
    Theme { kinds, owners: false, names: 2 }
}

fn request(random: &mut Random, theme: &Theme) -> Request {
    let kind = theme.kinds[random.below(theme.kinds.len())];
    let name = kind.name(random.below(theme.names));
    let mut request = match random.weighted(&[20, 3, 5, 8, 10, 5, 8, 6, 4, 14, 4, 12, 2, 6, 2, 2]) {
        0 => {
            Request::new("POST", kind.plural, kind.path()).body(object(random, theme, kind, &name))
        }
        1 => generated(random, theme, kind),
        2 => get(random, kind, &name),
        3 => list(random, kind),
        4 => put(random, theme, kind, &name),
        5 => status(random, kind, &name),
        6 => merge(random, theme, kind, &name),
        7 => json_patch(random, kind, &name),
        8 => strategic(random, theme, kind, &name),
        9 => apply(random, theme, kind, &name),
        10 => apply_status(random, kind, &name),
        11 => delete(random, kind, &name),
        12 => delete_collection(random, kind),
        13 => finalizers(random, kind, &name),
        14 => scale(random, &name),
        _ => odd(random, theme, kind, &name),
    };
    if random.percent(if theme.owners { 8 } else { 25 }) {
        request.user = random.pick(&USERS);
    }
    if request.writes() {
        if random.percent(10) {
            request = request.with("dryRun", "All");
        }
        if random.percent(20) && request.media != APPLY {
            request = request.with("fieldManager", random.pick(&["m1", "m2"]));
        }
        if random.percent(20) && request.method != "DELETE" {
            request = request.with("fieldValidation", random.pick(&["Strict", "Warn", "Ignore"]));
        }
    }
    request
}

fn generated(random: &mut Random, theme: &Theme, kind: Kind) -> Request {
    let mut body = object(random, theme, kind, "gone");
    let metadata = body["metadata"].as_object_mut().expect("metadata");
    metadata.remove("name");
    metadata.insert("generateName".to_owned(), json!(kind.name(9)));
    Request::new("POST", kind.plural, kind.path()).body(body)
}

fn get(random: &mut Random, kind: Kind, name: &str) -> Request {
    let mut request = Request::new("GET", kind.plural, kind.named(name));
    match random.below(6) {
        0 => request.accept = TABLE,
        1 => request.accept = PARTIAL,
        2 => request = request.with("resourceVersion", "0"),
        _ => {}
    }
    if random.percent(10) && kind.has_status {
        request.path.push_str("/status");
    }
    request
}

/// Objects of a cluster-scoped kind belong to every worker: their lists are not compared.
fn list(random: &mut Random, kind: Kind) -> Request {
    if !kind.namespaced {
        return get(random, kind, &kind.name(0));
    }
    let mut request = Request::new("GET", kind.plural, kind.path());
    if random.percent(50) {
        request = request.with("labelSelector", random.pick(&LABELS));
    }
    if random.percent(40) {
        request = request.with("fieldSelector", random.pick(&FIELDS));
    }
    if random.percent(15) {
        request = request.with("limit", random.pick(&["1", "2"]));
    }
    if random.percent(15) {
        request = request.with("resourceVersion", format!("${{list:{}}}", kind.plural));
        let how = random.pick(&["Exact", "NotOlderThan", ""]);
        if !how.is_empty() {
            request = request.with("resourceVersionMatch", how);
        }
    }
    match random.below(8) {
        0 => request.accept = TABLE,
        1 => request.accept = PARTIAL_LIST,
        _ => {}
    }
    request
}

fn put(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Request {
    let mut body = object(random, theme, kind, name);
    versioned(random, &mut body, kind, name);
    Request::new("PUT", kind.plural, kind.named(name)).body(body)
}

/// Adds a revision, an id or both, most often the last ones.
fn versioned(random: &mut Random, body: &mut Value, kind: Kind, name: &str) {
    let plural = kind.plural;
    match random.weighted(&[50, 20, 8, 8, 5]) {
        0 => body["metadata"]["resourceVersion"] = json!(format!("${{rv:{plural}/{name}}}")),
        2 => body["metadata"]["resourceVersion"] = json!(format!("${{old:{plural}/{name}}}")),
        3 => {
            body["metadata"]["resourceVersion"] = json!(format!("${{rv:{plural}/{name}}}"));
            body["metadata"]["uid"] = json!(format!("${{uid:{plural}/{name}}}"));
        }
        4 => body["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000"),
        _ => {}
    }
}

fn status(random: &mut Random, kind: Kind, name: &str) -> Request {
    let path = format!("{}/status", kind.named(name));
    let mut body = objects::head(kind, name);
    body["status"] = objects::status(random);
    if random.percent(50) {
        return Request::new("PATCH", kind.plural, path).media(MERGE).body(body);
    }
    versioned(random, &mut body, kind, name);
    body["spec"] = objects::payload(random, kind)["spec"].clone();
    Request::new("PUT", kind.plural, path).body(body)
}

fn merge(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Request {
    let body = objects::part(random, theme, kind, name);
    Request::new("PATCH", kind.plural, kind.named(name)).media(MERGE).body(body)
}

fn json_patch(random: &mut Random, kind: Kind, name: &str) -> Request {
    let count = 1 + random.below(2);
    let operations: Vec<Value> = (0..count).map(|_| objects::operation(random, kind)).collect();
    let body = Value::Array(operations);
    Request::new("PATCH", kind.plural, kind.named(name)).media(JSON_PATCH).body(body)
}

fn strategic(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Request {
    let mut body = objects::part(random, theme, kind, name);
    if random.percent(15) && (kind == CONFIG_MAP || kind == SECRET) {
        body["data"] = json!({"$patch": random.pick(&["replace", "delete"]), "k1": "s"});
    }
    if random.percent(20) {
        body["metadata"]["$deleteFromPrimitiveList/finalizers"] = json!(["diff.example/a"]);
    }
    Request::new("PATCH", kind.plural, kind.named(name)).media(STRATEGIC).body(body)
}

fn apply(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Request {
    let body = object(random, theme, kind, name);
    let request = Request::new("PATCH", kind.plural, kind.named(name)).media(APPLY).body(body);
    forced(random, request)
}

fn apply_status(random: &mut Random, kind: Kind, name: &str) -> Request {
    let mut body = objects::head(kind, name);
    body["status"] = objects::status(random);
    let path = format!("{}/status", kind.named(name));
    let request = Request::new("PATCH", kind.plural, path).media(APPLY).body(body);
    forced(random, request)
}

fn forced(random: &mut Random, request: Request) -> Request {
    let managed = random.pick(&["m1", "m2", "m3"]);
    let request = if random.percent(95) { request.with("fieldManager", managed) } else { request };
    if random.percent(40) { request.with("force", "true") } else { request }
}

fn delete(random: &mut Random, kind: Kind, name: &str) -> Request {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    let mut request = Request::new("DELETE", kind.plural, kind.named(name));
    match random.weighted(&[20, 20, 25, 20, 3, 3, 8]) {
        0 => {}
        1 => options["propagationPolicy"] = json!("Background"),
        2 => options["propagationPolicy"] = json!("Foreground"),
        3 => options["propagationPolicy"] = json!("Orphan"),
        4 => options["orphanDependents"] = json!(true),
        5 => options["propagationPolicy"] = json!("Sideways"),
        _ => request = request.with("propagationPolicy", random.pick(&["Foreground", "Orphan"])),
    }
    let plural = kind.plural;
    match random.weighted(&[60, 10, 8, 8, 8]) {
        1 => options["preconditions"]["uid"] = json!(format!("${{uid:{plural}/{name}}}")),
        2 => {
            options["preconditions"]["resourceVersion"] = json!(format!("${{rv:{plural}/{name}}}"));
        }
        3 => {
            options["preconditions"]["resourceVersion"] =
                json!(format!("${{old:{plural}/{name}}}"));
        }
        4 => options["preconditions"]["uid"] = json!("00000000-0000-4000-8000-000000000000"),
        _ => {}
    }
    if random.percent(10) {
        options["dryRun"] = json!(["All"]);
    }
    if random.percent(75) { request.body(options) } else { request }
}

fn delete_collection(random: &mut Random, kind: Kind) -> Request {
    if !kind.namespaced {
        return delete(random, kind, &kind.name(0));
    }
    let request = Request::new("DELETE", kind.plural, kind.path());
    request.with("labelSelector", random.pick(&["l=a", "l!=a", "l"]))
}

/// Finalizers come and go.
fn finalizers(random: &mut Random, kind: Kind, name: &str) -> Request {
    let choices = [
        Value::Null,
        json!([]),
        json!(["diff.example/a"]),
        json!(["diff.example/a", "diff.example/b"]),
        json!(["noslash"]),
    ];
    let chosen = choices[random.weighted(&[50, 15, 20, 10, 3])].clone();
    let body = json!({"metadata": {"finalizers": chosen}});
    Request::new("PATCH", kind.plural, kind.named(name)).media(MERGE).body(body)
}

fn scale(random: &mut Random, name: &str) -> Request {
    let path = format!("{}/scale", WIDGET.named(name));
    match random.below(3) {
        0 => Request::new("GET", WIDGET.plural, path),
        1 => {
            let body = json!({"spec": {"replicas": random.below(13)}});
            Request::new("PATCH", WIDGET.plural, path).media(MERGE).body(body)
        }
        _ => {
            let body = json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale",
                "metadata": {"name": name, "namespace": "${ns}"},
                "spec": {"replicas": random.below(13)},
            });
            Request::new("PUT", WIDGET.plural, path).body(body)
        }
    }
}

/// Requests that no client should send.
fn odd(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Request {
    let mut body = object(random, theme, kind, name);
    let post = Request::new("POST", kind.plural, kind.path());
    match random.below(12) {
        0 => body["kind"] = json!("Other"),
        1 => body["apiVersion"] = json!("v9"),
        2 => body["metadata"]["name"] = json!(random.pick(&["Upper", "", "a..b", "-a", "a/b"])),
        3 => body["metadata"]["namespace"] = json!("elsewhere"),
        4 => body["metadata"]["resourceVersion"] = json!("7"),
        5 => body["metadata"] = Value::Null,
        6 => body["metadata"]["labels"] = json!({"l": 7}),
        7 => body["unknown"] = json!({"a": 1}),
        8 => body = json!([1]),
        9 => body["metadata"]["managedFields"] = json!([]),
        10 => return post.with("dryRun", "Some").body(body),
        _ => return Request::new("PUT", kind.plural, kind.named("other")).body(body),
    }
    if random.percent(30) && kind != LEASE && kind != SECRET && kind != ACCOUNT {
        return Request::new("PUT", kind.plural, kind.named(name)).body(body);
    }
    post.body(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_always_the_same_requests_and_at_most_forty() {
        for seed in 0..500 {
            let (_, requests) = requests(seed);
            assert!((FEWEST..=MOST).contains(&requests.len()));
            assert_eq!(requests, super::requests(seed).1);
        }
    }

    #[test]
    fn the_seeds_have_every_method_media_type_user_and_propagation() {
        let lines: Vec<String> =
            (0..200).flat_map(|seed| requests(seed).1).map(|request| request.line()).collect();
        let words = [
            "POST",
            "PUT",
            "DELETE",
            "merge-patch",
            "json-patch",
            "strategic",
            "apply-patch",
            "ann",
            "bob",
            "cid",
            "Foreground",
            "Background",
            "Orphan",
            "ownerReferences",
            "labelSelector",
            "fieldSelector",
            "dryRun=All",
            "generateName",
            "dan/diff-team",
            "continue=",
            "resourceVersionMatch=Exact",
            "namespaces/diff-ending",
            "/scale",
            "/status",
        ];
        for word in words {
            assert!(lines.iter().any(|line| line.contains(word)), "{word}");
        }
    }
}
