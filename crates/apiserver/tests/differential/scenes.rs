//! Short sequences that single random requests seldom make: each leads an object into a state and
//! then does there what may go wrong.

use serde_json::{Value, json};

use crate::generate::{Theme, pages};
use crate::objects::{self, head, object};
use crate::random::Random;
use crate::request::{APPLY, JSON_PATCH, MERGE, Request};
use crate::world::{CONFIG_MAP, ENDING, Kind, PLINTH, SECRET, WIDGET};

/// A random sequence about an object of the theme.
pub(crate) fn scene(random: &mut Random, theme: &Theme) -> Vec<Request> {
    let kind = theme.kinds[random.below(theme.kinds.len())];
    let name = kind.name(random.below(theme.names));
    match random.below(10) {
        0 | 1 => terminating(random, kind, &name),
        2 => listed(random, theme, kind),
        3 => dry_run(random, theme, kind, &name),
        4 => immutable(random, theme),
        5 => tested(random, kind, &name),
        6 | 7 => status(random, theme, kind),
        8 => shared(random, theme, kind, &name),
        _ => vec![ending(random, theme, kind, &name)],
    }
}

fn post(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Request {
    let body = object(random, theme, kind, name);
    Request::new("POST", kind.plural, kind.path()).body(body)
}

fn patch(kind: Kind, name: &str, body: Value) -> Request {
    Request::new("PATCH", kind.plural, kind.named(name)).media(MERGE).body(body)
}

/// An object that waits for its finalizers, and writes to it.
fn terminating(random: &mut Random, kind: Kind, name: &str) -> Vec<Request> {
    let finalizers = |list: Value| patch(kind, name, json!({"metadata": {"finalizers": list}}));
    let delete = Request::new("DELETE", kind.plural, kind.named(name));
    let policy = random.pick(&["Background", "Foreground", "Orphan"]);
    let mut body = head(kind, name);
    body["metadata"]["finalizers"] = json!(["diff.example/a"]);
    let post = Request::new("POST", kind.plural, kind.path()).body(body.clone());
    let mut requests = vec![
        post.clone(),
        finalizers(json!(["diff.example/a"])),
        delete.clone().body(json!({"propagationPolicy": policy})),
    ];
    for _ in 0..=random.below(3) {
        requests.push(match random.below(7) {
            0 => finalizers(json!(["diff.example/a", "diff.example/b"])),
            1 => patch(kind, name, json!({"metadata": {"labels": {"l": "t"}}})),
            2 => post.clone(),
            3 => delete.clone(),
            4 => {
                body["metadata"]["finalizers"] = json!(["diff.example/b"]);
                let apply = Request::new("PATCH", kind.plural, kind.named(name)).media(APPLY);
                apply.body(body.clone()).with("fieldManager", "m2")
            }
            5 => {
                let drop = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
                let path = kind.named(name);
                Request::new("PATCH", kind.plural, path).media(JSON_PATCH).body(drop)
            }
            _ => Request::new("GET", kind.plural, kind.named(name)),
        });
    }
    if random.percent(70) {
        requests.push(finalizers(Value::Null));
    }
    requests
}

/// Several objects, and a list in pages or by a selector.
fn listed(random: &mut Random, theme: &Theme, kind: Kind) -> Vec<Request> {
    if !kind.namespaced {
        return Vec::new();
    }
    let mut requests: Vec<Request> =
        (0..3).map(|number| post(random, theme, kind, &kind.name(number))).collect();
    let mut list = Request::new("GET", kind.plural, kind.path());
    if random.percent(60) {
        list = list.with("limit", random.pick(&["1", "2"]));
    }
    if random.percent(50) {
        list = list.with("labelSelector", random.pick(&["l!=a", "l notin (a,b)", "!m", "l"]));
    }
    let more = pages(&list);
    requests.push(list);
    if random.percent(30) {
        requests.push(Request::new("DELETE", kind.plural, kind.named("x1")));
    }
    requests.extend(more);
    requests
}

/// A write that is not to be, and what is there afterwards.
fn dry_run(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Vec<Request> {
    let path = kind.named(name);
    let first = post(random, theme, kind, name);
    let dry = match random.below(4) {
        0 => Request::new("DELETE", kind.plural, path.clone()).body(json!({"dryRun": ["All"]})),
        1 => Request::new("DELETE", kind.plural, path.clone()).with("dryRun", "All"),
        2 => post(random, theme, kind, name).with("dryRun", "All"),
        _ => {
            let apply = Request::new("PATCH", kind.plural, path.clone()).media(APPLY);
            let apply = apply.body(object(random, theme, kind, name)).with("dryRun", "All");
            apply.with("fieldManager", "m1")
        }
    };
    let look = Request::new("GET", kind.plural, path);
    if random.percent(50) { vec![first, dry, look] } else { vec![dry, look] }
}

/// Data that cannot change any more, changed.
fn immutable(random: &mut Random, theme: &Theme) -> Vec<Request> {
    let kind = if theme.kinds.contains(&SECRET) { SECRET } else { CONFIG_MAP };
    if !theme.kinds.contains(&kind) {
        return Vec::new();
    }
    let changes = [
        json!({"data": {"k0": "Yg=="}}),
        json!({"immutable": null}),
        json!({"immutable": false}),
        json!({"metadata": {"labels": {"l": "i"}}}),
        json!({"data": null}),
    ];
    let change = changes[random.below(changes.len())].clone();
    vec![
        patch(kind, "x0", json!({"immutable": true, "data": {"k0": "YQ=="}})),
        patch(kind, "x0", change),
    ]
}

/// A JSON patch whose test may fail.
fn tested(random: &mut Random, kind: Kind, name: &str) -> Vec<Request> {
    let (path, value) = match random.below(4) {
        0 => ("/metadata/name", json!(random.pick(&["x0", "x1"]))),
        1 => ("/metadata/labels", Value::Null),
        2 => ("/metadata/labels/l", json!(random.pick(&["a", "b"]))),
        _ => ("/kind", json!(kind.singular)),
    };
    let label = json!({"metadata": {"labels": {"l": random.pick(&["a", "b"])}}});
    let body = json!([
        {"op": "test", "path": path, "value": value},
        {"op": "add", "path": "/metadata/annotations", "value": {"note": "tested"}},
    ]);
    let change = Request::new("PATCH", kind.plural, kind.named(name)).media(JSON_PATCH).body(body);
    vec![patch(kind, name, label), change]
}

/// A status that also says what is wanted, and an object that also says how it is.
fn status(random: &mut Random, theme: &Theme, kind: Kind) -> Vec<Request> {
    let kind = if kind.has_status { kind } else { WIDGET };
    if !theme.kinds.contains(&kind) {
        return Vec::new();
    }
    let name = kind.name(random.below(theme.names));
    let (plural, path) = (kind.plural, kind.named(&name));
    let mut body = head(kind, &name);
    let wanted = if kind == PLINTH { "a" } else { "size" };
    body["spec"] = json!({wanted: 1 + random.below(9)});
    body["status"] = objects::status(random);
    let make = Request::new("POST", plural, kind.path()).body(body.clone());
    body["metadata"]["resourceVersion"] = json!(format!("${{rv:{plural}/{name}}}"));
    body["spec"] = json!({wanted: 1 + random.below(9)});
    body["status"] = objects::status(random);
    if random.percent(30) {
        body["metadata"]["labels"] = json!({"l": "s"});
    }
    let path = if random.percent(70) { format!("{path}/status") } else { path };
    let write = if random.percent(50) {
        Request::new("PUT", plural, path)
    } else {
        Request::new("PATCH", plural, path).media(MERGE)
    };
    vec![make, write.body(body)]
}

/// Two managers of one object.
fn shared(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Vec<Request> {
    let managers: [&str; 2] = if random.percent(80) { ["m1", "m2"] } else { ["m1", "m1"] };
    let mut requests: Vec<Request> = Vec::new();
    for manager in managers {
        let apply = Request::new("PATCH", kind.plural, kind.named(name)).media(APPLY);
        let apply = apply.body(object(random, theme, kind, name)).with("fieldManager", manager);
        requests.push(if random.percent(40) { apply.with("force", "true") } else { apply });
    }
    requests
}

/// A creation where nothing can be created any more.
fn ending(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Request {
    let mut request = post(random, theme, kind, name);
    if random.percent(40) {
        request.path = format!("{}/{name}", request.path);
        request.method = "PATCH";
        request = request.media(APPLY).with("fieldManager", "m1");
    }
    request.path = request.path.replace("${ns}", ENDING);
    request
}
