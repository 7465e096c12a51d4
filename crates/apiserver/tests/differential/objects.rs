//! Random objects and parts of them: mostly valid.

use serde_json::{Map, Value, json};

use crate::generate::Theme;
use crate::random::Random;
use crate::world::{ACCOUNT, CONFIG_MAP, GADGET, Kind, LEASE, PLINTH, SECRET};

const FINALIZERS: [&str; 3] = ["diff.example/a", "diff.example/b", "orphan"];

/// An object without a payload.
pub(crate) fn head(kind: Kind, name: &str) -> Value {
    json!({"apiVersion": kind.version, "kind": kind.singular, "metadata": {"name": name}})
}

/// A whole object.
pub(crate) fn object(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Value {
    let mut object = head(kind, name);
    metadata(random, theme, &mut object["metadata"]);
    if let (Some(object), Value::Object(payload)) = (object.as_object_mut(), payload(random, kind))
    {
        object.extend(payload);
    }
    object
}

/// A part of an object, with nulls.
pub(crate) fn part(random: &mut Random, theme: &Theme, kind: Kind, name: &str) -> Value {
    let mut part = if random.percent(30) { head(kind, name) } else { json!({"metadata": {}}) };
    if random.percent(40) {
        metadata(random, theme, &mut part["metadata"]);
    }
    if let (Some(part), Value::Object(payload)) = (part.as_object_mut(), payload(random, kind)) {
        part.extend(payload);
    }
    for _ in 0..random.below(2) {
        remove(random, &mut part);
    }
    if random.percent(8) {
        part["metadata"]["resourceVersion"] = json!(format!("${{rv:{}/{name}}}", kind.plural));
    }
    part
}

/// Sets one field to null.
fn remove(random: &mut Random, part: &mut Value) {
    let mut at = part;
    while let Value::Object(map) = at {
        let keys: Vec<String> = map.keys().cloned().collect();
        if keys.is_empty() {
            return;
        }
        let key = &keys[random.below(keys.len())];
        let child = map.get_mut(key).expect("its own key");
        if !child.is_object() || random.percent(25) {
            if !["apiVersion", "kind", "name"].contains(&key.as_str()) {
                *child = Value::Null;
            }
            return;
        }
        at = child;
    }
}

fn metadata(random: &mut Random, theme: &Theme, metadata: &mut Value) {
    if random.percent(50) {
        let values = ["a", "b", "c"];
        metadata["labels"] = json!({"l": random.pick(&values)});
        if random.percent(40) {
            metadata["labels"]["m"] = json!(random.pick(&values));
        }
    }
    if random.percent(15) {
        metadata["annotations"] = json!({"note": random.pick(&["one", "two"])});
    }
    if random.percent(2) {
        metadata["labels"] =
            random.pick(&[json!({"bad key!": "a"}), json!({"l": "-"})].each_ref()).clone();
    }
    if random.percent(if theme.owners { 20 } else { 12 }) {
        let choice = random.weighted(&[60, 30, 1]);
        metadata["finalizers"] = json!([FINALIZERS[choice]]);
    }
    if theme.owners && random.percent(70) {
        let owner = owner(random, theme);
        let mut owners = vec![owner];
        if random.percent(20) {
            owners.push(self::owner(random, theme));
        }
        metadata["ownerReferences"] = Value::Array(owners);
    }
}

fn owner(random: &mut Random, theme: &Theme) -> Value {
    let kind = theme.kinds[random.below(theme.kinds.len())];
    let name = kind.name(random.below(theme.names));
    let uid = if random.percent(92) {
        json!(format!("${{uid:{}/{name}}}", kind.plural))
    } else {
        json!("00000000-0000-4000-8000-000000000000")
    };
    let mut owner =
        json!({"apiVersion": kind.version, "kind": kind.singular, "name": name, "uid": uid});
    if random.percent(60) {
        owner["blockOwnerDeletion"] = json!(random.percent(85));
    }
    if random.percent(40) {
        owner["controller"] = json!(random.percent(85));
    }
    owner
}

/// What an object of the kind says beside its metadata.
pub(crate) fn payload(random: &mut Random, kind: Kind) -> Value {
    if kind == CONFIG_MAP {
        return config_map(random);
    }
    if kind == SECRET {
        return secret(random);
    }
    if kind == ACCOUNT {
        return account(random);
    }
    if kind == LEASE {
        return lease(random);
    }
    if kind == GADGET || kind == PLINTH {
        let spec = json!({"a": free(random, 2), "b": free(random, 1)});
        return json!({"spec": if random.percent(95) { spec } else { free(random, 1) }});
    }
    let mut widget = json!({"spec": spec(random)});
    if random.percent(20) {
        widget["status"] = status(random);
    }
    if random.percent(5) {
        widget["stray"] = json!(1);
    }
    widget
}

fn word<'a>(random: &mut Random) -> &'a str {
    random.pick(&["a", "b", "", "long text"])
}

fn config_map(random: &mut Random) -> Value {
    let mut data = Map::new();
    for _ in 0..random.below(3) {
        data.insert(format!("k{}", random.below(3)), json!(word(random)));
    }
    let mut payload = json!({});
    if random.percent(90) {
        payload["data"] = Value::Object(data);
    }
    match random.below(30) {
        0 => payload["immutable"] = json!(true),
        1 => payload["immutable"] = json!(false),
        2 => payload["binaryData"] = json!({"k9": "AAEC"}),
        3 => payload["binaryData"] = json!({"k0": "AAEC"}),
        4 => payload["data"] = json!({"bad key!": "a"}),
        5 => payload["data"] = json!({"k0": 7}),
        6 => payload["binaryData"] = json!({"k9": "not base64"}),
        _ => {}
    }
    payload
}

fn secret(random: &mut Random) -> Value {
    let mut payload = json!({});
    if random.percent(70) {
        payload["data"] =
            json!({format!("k{}", random.below(3)): random.pick(&["YQ==", "", "Yg=="])});
    }
    if random.percent(30) {
        payload["stringData"] = json!({format!("k{}", random.below(3)): word(random)});
    }
    match random.below(16) {
        0 => payload["type"] = json!("Opaque"),
        1 => payload["type"] = json!("diff.example/own"),
        2 => payload["type"] = json!("kubernetes.io/basic-auth"),
        3 => payload["type"] = json!("kubernetes.io/tls"),
        4 => payload["immutable"] = json!(true),
        5 => payload["type"] = json!("kubernetes.io/dockerconfigjson"),
        _ => {}
    }
    payload
}

fn account(random: &mut Random) -> Value {
    let mut payload = json!({});
    if random.percent(40) {
        payload["automountServiceAccountToken"] = json!(random.percent(50));
    }
    if random.percent(40) {
        payload["secrets"] = json!([{"name": random.pick(&["s1", "s2"])}]);
    }
    if random.percent(40) {
        payload["imagePullSecrets"] = json!([{"name": random.pick(&["p1", "p2"])}]);
    }
    payload
}

fn lease(random: &mut Random) -> Value {
    let mut spec = json!({});
    if random.percent(70) {
        spec["holderIdentity"] = json!(random.pick(&["h1", "h2", ""]));
    }
    if random.percent(60) {
        spec["leaseDurationSeconds"] = json!([15, 30, 0, -1][random.weighted(&[40, 40, 5, 5])]);
    }
    if random.percent(40) {
        let times = ["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.500000Z"];
        spec["renewTime"] = json!(random.pick(&times));
    }
    if random.percent(20) {
        spec["leaseTransitions"] = json!([1, 0, -1][random.weighted(&[60, 30, 10])]);
    }
    json!({"spec": spec})
}

fn spec(random: &mut Random) -> Value {
    let mut spec = json!({});
    for _ in 0..=random.below(4) {
        let (field, value) = field(random);
        spec[field] = value;
    }
    spec
}

/// A field of the widget's spec; about one in ten is wrong.
fn field(random: &mut Random) -> (&'static str, Value) {
    let wrong = random.percent(10);
    match random.below(16) {
        0 if wrong => ("size", json!("big")),
        0 | 1 => ("size", json!(random.below(12))),
        2 => ("limit", json!(random.below(9))),
        3 => ("frozen", json!(random.pick(&["a", "b"]))),
        4 if wrong => ("color", json!("pink")),
        4 => ("color", json!(random.pick(&["red", "green", "blue"]))),
        5 if wrong => ("note", json!("NOT LOWER")),
        5 => ("note", if random.percent(30) { Value::Null } else { json!("some words") }),
        6 => ("ratio", [json!(0.5), json!(1), json!(2.0), json!("x")][random.below(4)].clone()),
        7 => {
            ("mode", [json!(1), json!("25%"), json!(true)][random.weighted(&[45, 45, 10])].clone())
        }
        8 => ("on", if wrong { json!("yes") } else { json!(random.percent(50)) }),
        9 => ("tags", tags(random)),
        10 | 11 => ("ports", ports(random)),
        12 => ("parts", json!([{"a": random.below(3)}, {"b": "x", "stray": 1}])),
        13 => ("whole", json!({random.pick(&["p", "q"]): random.pick(&["1", "2"])})),
        14 => ("nested", json!({"a": word(random), "deep": {"stray": 1}})),
        _ => ("free", json!({"known": "k", "other": free(random, 1)})),
    }
}

fn tags(random: &mut Random) -> Value {
    let all = ["t1", "t2", "t3", "t4"];
    let count = random.below(4);
    let start = random.below(all.len());
    let mut tags: Vec<&str> = (0..count).map(|index| all[(start + index) % all.len()]).collect();
    if random.percent(8) {
        tags.push("t1");
    }
    json!(tags)
}

fn ports(random: &mut Random) -> Value {
    let mut ports = Vec::new();
    for name in ["web", "api", "db"] {
        if random.percent(45) {
            let mut port = json!({"name": name, "port": 80 + random.below(3)});
            if random.percent(30) {
                port["protocol"] = json!("UDP");
            }
            ports.push(port);
        }
    }
    match random.below(25) {
        0 => ports.push(json!({"name": "web", "port": 1})),
        1 => ports.push(json!({"port": 2})),
        2 => ports.push(json!({"name": "much-too-long", "port": 0})),
        _ => {}
    }
    Value::Array(ports)
}

/// Any JSON.
fn free(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => json!(random.below(100)),
        1 => json!(word(random)),
        2 => json!(true),
        3 => json!(1.5),
        4 => json!([1, "a"]),
        5 => json!({}),
        _ => {
            let mut map = Map::new();
            for _ in 0..=random.below(2) {
                map.insert(random.pick(&["p", "q", "r"]).to_owned(), free(random, depth - 1));
            }
            Value::Object(map)
        }
    }
}

/// A status of a widget.
pub(crate) fn status(random: &mut Random) -> Value {
    let mut status = json!({});
    if random.percent(60) {
        status["seen"] = json!(random.below(4));
    }
    if random.percent(50) {
        status["conditions"] = json!([
            {"type": "Ready", "status": random.pick(&["True", "False", "Maybe", "True"])},
        ]);
    }
    if random.percent(10) {
        status["selector"] = json!("l=a");
    }
    if random.percent(5) {
        status["stray"] = json!(1);
    }
    status
}

/// One operation of a JSON patch.
pub(crate) fn operation(random: &mut Random, kind: Kind) -> Value {
    let inside = if kind == CONFIG_MAP || kind == SECRET { "data/k0" } else { "spec/size" };
    let value = match kind.plural {
        "configmaps" => json!("j"),
        "secrets" => json!("ag=="),
        _ => json!(random.below(9)),
    };
    match random.below(12) {
        0..=2 => json!({"op": "add", "path": format!("/{inside}"), "value": value}),
        3 | 4 => json!({"op": "replace", "path": format!("/{inside}"), "value": value}),
        5 | 6 => json!({"op": "remove", "path": format!("/{inside}")}),
        7 => json!({"op": "test", "path": format!("/{inside}"), "value": value}),
        8 => json!({"op": "add", "path": "/metadata/labels", "value": {"l": "j"}}),
        9 => json!({"op": "remove", "path": "/metadata/finalizers/0"}),
        10 => json!({"op": "add", "path": "/metadata/finalizers/-", "value": "diff.example/b"}),
        _ => json!({"op": "move", "from": format!("/{inside}"), "path": format!("/{inside}2")}),
    }
}
