//! Short sequences that single random requests seldom make: each leads an object into a state and
//! then does there what may go wrong.

use serde_json::{Value, json};

use crate::generate::{Theme, pages};
use crate::objects::{self, head, object};
use crate::random::Random;
use crate::request::{APPLY, JSON_PATCH, MERGE, Request, STRATEGIC};
use crate::world::{CONFIG_MAP, ENDING, Kind, PLINTH, SECRET, USERS, WIDGET};

/// A random sequence about an object of the theme.
pub(crate) fn scene(random: &mut Random, theme: &Theme) -> Vec<Request> {
    let kind = theme.kinds[random.below(theme.kinds.len())];
    let name = kind.name(random.below(theme.names));
    if theme.owners && random.percent(60) {
        return owned(random, theme);
    }
    match random.below(13) {
        0 | 1 => terminating(random, kind, &name),
        2 => listed(random, theme, kind),
        3 => dry_run(random, theme, kind, &name),
        4 => immutable(random, theme),
        5 => tested(random, kind, &name),
        6 | 7 => status(random, theme, kind),
        8 => shared(random, theme, kind, &name),
        9 => merged(random, theme),
        10 => vec![as_a_user(random, kind, &name)],
        11 => replaced(random, kind, &name),
        _ if kind.namespaced => vec![ending(random, theme, kind, &name)],
        _ => terminating(random, kind, &name),
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

/// An owner with dependents, of which some wait for finalizers, deleted by a policy.
fn owned(random: &mut Random, theme: &Theme) -> Vec<Request> {
    let kinds = &theme.kinds;
    let owner = kinds[random.below(kinds.len())];
    let create = |kind: Kind, number: usize, finalizers: Value, owners: Value| {
        let mut body = head(kind, &kind.name(number));
        for (field, list) in [("finalizers", finalizers), ("ownerReferences", owners)] {
            if !list.is_null() {
                body["metadata"][field] = list;
            }
        }
        let path = kind.named(&kind.name(number));
        let apply = Request::new("PATCH", kind.plural, path).media(APPLY).body(body);
        apply.with("fieldManager", "m1").with("force", "true")
    };
    let reference = |kind: Kind, number: usize, blocks: bool| {
        let name = kind.name(number);
        json!({"apiVersion": kind.version, "kind": kind.singular, "name": name,
               "uid": format!("${{uid:{}/{name}}}", kind.plural), "blockOwnerDeletion": blocks})
    };
    let mut requests = vec![create(owner, 0, Value::Null, Value::Null)];
    let second = random.percent(40);
    if second {
        requests.push(create(owner, 1, Value::Null, Value::Null));
    }
    // A dependent without a namespace may have owners without one only.
    let dependents: Vec<Kind> =
        kinds.iter().copied().filter(|kind| kind.namespaced || !owner.namespaced).collect();
    let dependent = dependents[random.below(dependents.len())];
    let held = random.percent(60);
    let finalizers = if held { json!(["diff.example/a"]) } else { Value::Null };
    let mut owners = vec![reference(owner, 0, random.percent(60))];
    if second {
        owners.push(reference(owner, 1, random.percent(60)));
    }
    requests.push(create(dependent, 2, finalizers, Value::Array(owners)));
    let policy = random.pick(&["Background", "Foreground", "Foreground", "Orphan"]);
    let path = owner.named(&owner.name(0));
    let delete = Request::new("DELETE", owner.plural, path.clone());
    requests.push(delete.body(json!({"propagationPolicy": policy})));
    // Before the dependent goes, the owner may have to wait.
    requests.push(Request::new("GET", owner.plural, path));
    let name = dependent.name(2);
    if random.percent(40) {
        requests.push(patch(dependent, &name, json!({"metadata": {"labels": {"l": "o"}}})));
    }
    if held {
        requests.push(patch(dependent, &name, json!({"metadata": {"finalizers": null}})));
    }
    requests
}

/// Lists of the metadata, merged by what they are lists of.
fn merged(random: &mut Random, theme: &Theme) -> Vec<Request> {
    let Some(kind) = theme.kinds.iter().find(|kind| !kind.custom) else { return Vec::new() };
    let name = kind.name(0);
    let change = |finalizers: Value| {
        let body = json!({"metadata": finalizers});
        Request::new("PATCH", kind.plural, kind.named(&name)).media(STRATEGIC).body(body)
    };
    let next = [
        json!({"finalizers": ["diff.example/b"]}),
        json!({"finalizers": null}),
        json!({"finalizers": ["diff.example/b"],
               "$setElementOrder/finalizers": ["diff.example/b", "diff.example/a"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["diff.example/a"]}),
    ];
    let next = next[random.below(next.len())].clone();
    let post = post(random, theme, *kind, &name);
    vec![post, change(json!({"finalizers": ["diff.example/a"]})), change(next)]
}

/// What one of the users may or may not do.
fn as_a_user(random: &mut Random, kind: Kind, name: &str) -> Request {
    let named = kind.named(name);
    let mut request = match random.below(6) {
        0 => Request::new("GET", kind.plural, named),
        1 if kind.namespaced => {
            Request::new("GET", kind.plural, kind.path().replace("${ns}", ENDING))
        }
        2 => Request::new("DELETE", kind.plural, named),
        3 => Request::new("POST", kind.plural, kind.path()).body(head(kind, name)),
        4 => {
            let body = json!({"status": objects::status(random)});
            patch(kind, name, body).below("/status")
        }
        _ => patch(kind, name, json!({"metadata": {"labels": {"l": "u"}}})),
    };
    request.user = random.pick(&USERS);
    request
}

/// A PUT of an object that was read before, or of another one of its name.
fn replaced(random: &mut Random, kind: Kind, name: &str) -> Vec<Request> {
    let place = format!("{}/{name}", kind.plural);
    let mut body = head(kind, name);
    let post = Request::new("POST", kind.plural, kind.path()).body(body.clone());
    body["metadata"]["labels"] = json!({"l": "r"});
    if random.percent(70) {
        body["metadata"]["resourceVersion"] = json!(format!("${{rv:{place}}}"));
    }
    body["metadata"]["uid"] = if random.percent(50) {
        json!(format!("${{uid:{place}}}"))
    } else {
        json!("00000000-0000-4000-8000-000000000000")
    };
    let put = Request::new("PUT", kind.plural, kind.named(name)).body(body);
    if random.percent(30) {
        return vec![post, Request::new("DELETE", kind.plural, kind.named(name)), put];
    }
    vec![post, put]
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
