//! Values for property tests: small, unusual, and often equal.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON value, from few names and values.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            fields(inner).prop_map(Value::Object),
        ]
    })
}

/// Any JSON object.
pub(crate) fn object() -> impl Strategy<Value = Value> {
    fields(value()).prop_map(Value::Object)
}

/// Objects of the kind that [`widget_schema`] describes, mostly.
pub(crate) fn widget() -> impl Strategy<Value = Value> {
    let port = (0_i64..4, prop::option::of("TCP|UDP"), prop::option::of("[a-b]")).prop_map(
        |(port, protocol, name)| {
            let mut item = json!({"port": port});
            if let Some(protocol) = protocol {
                item["protocol"] = json!(protocol);
            }
            if let Some(name) = name {
                item["name"] = json!(name);
            }
            item
        },
    );
    let ports = prop::collection::vec(port, 0..4).prop_map(|mut ports| {
        let key = |item: &Value| {
            (
                item["port"].clone().to_string(),
                item["protocol"].as_str().unwrap_or("TCP").to_owned(),
            )
        };
        let mut seen = Vec::new();
        ports.retain(|item| {
            let fresh = !seen.contains(&key(item));
            seen.push(key(item));
            fresh
        });
        Value::from(ports)
    });
    let tags = prop::collection::btree_set("[a-d]", 0..3).prop_map(|tags| json!(tags));
    let spec = (
        prop::option::of((0_i64..5).prop_map(Value::from)),
        prop::option::of(ports),
        prop::option::of(tags),
        prop::option::of(prop::collection::vec("[a-c]", 0..3).prop_map(|list| json!(list))),
        prop::option::of(fields("[x-z]".prop_map(Value::from)).prop_map(Value::Object)),
        prop::option::of(object()),
    );
    (prop::option::of(fields("[x-z]".prop_map(Value::from))), spec).prop_map(|(labels, spec)| {
        let mut meta = json!({"name": "a"});
        if let Some(labels) = labels {
            meta["labels"] = Value::Object(labels);
        }
        let (size, ports, tags, order, limits, free) = spec;
        let named = [
            ("size", size),
            ("ports", ports),
            ("tags", tags),
            ("order", order),
            ("limits", limits),
            ("free", free),
        ];
        let spec: Map<String, Value> =
            named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        json!({"apiVersion": "corpus.example/v1", "kind": "Widget", "metadata": meta, "spec": spec})
    })
}

/// A schema with a list of each type, a map, and a field that preserves unknown fields.
pub(crate) fn widget_schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1, "minimum": 0},
        "ports": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {"type": "object", "required": ["port"], "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                "name": {"type": "string"}}}},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "order": {"type": "array", "items": {"type": "string"}},
        "limits": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}})
}

fn fields(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let name = prop_oneof!["[a-c]", Just("spec".to_owned()), Just("metadata".to_owned()), ".{0,3}"];
    prop::collection::vec((name, inner), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}
