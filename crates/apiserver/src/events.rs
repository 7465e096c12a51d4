//! Events in two APIs: `v1` and `events.k8s.io/v1` name the same fields differently.

use serde_json::{Map, Value, json};

/// Field names in `v1` and in `events.k8s.io/v1`.
const NAMES: [(&str, &str); 8] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// Fields that `v1` always has.
const CORE: [(&str, Shown); 7] = [
    ("involvedObject", Shown::Map),
    ("source", Shown::Map),
    ("firstTimestamp", Shown::Null),
    ("lastTimestamp", Shown::Null),
    ("eventTime", Shown::Null),
    ("reportingComponent", Shown::Text),
    ("reportingInstance", Shown::Text),
];

/// Fields that `events.k8s.io/v1` always has.
const REGARDING: [(&str, Shown); 5] = [
    ("eventTime", Shown::Null),
    ("regarding", Shown::Map),
    ("deprecatedSource", Shown::Map),
    ("deprecatedFirstTimestamp", Shown::Null),
    ("deprecatedLastTimestamp", Shown::Null),
];

#[derive(Clone, Copy)]
enum Shown {
    Map,
    Null,
    Text,
}

/// Converts to `events.k8s.io/v1`.
pub(crate) fn to_regarding(core: &Value) -> Value {
    let mut event = renamed(core, |name| {
        NAMES.iter().find(|(core, _)| *core == name).map_or(name, |(_, other)| other)
    });
    event["apiVersion"] = json!("events.k8s.io/v1");
    if let Some(map) = event.as_object_mut() {
        map.retain(|key, value| {
            let texts = key == "reportingController" || key == "reportingInstance";
            !(texts && value.as_str() == Some(""))
        });
        complete(map, &REGARDING);
    }
    event
}

/// Converts to `v1`, which is the stored version.
pub(crate) fn to_core(event: &Value) -> Value {
    let mut core = renamed(event, |name| {
        NAMES.iter().find(|(_, other)| *other == name).map_or(name, |(core, _)| core)
    });
    core["apiVersion"] = json!("v1");
    if let Some(map) = core.as_object_mut() {
        complete(map, &CORE);
    }
    core
}

/// Fills in the fields that `v1` always has.
pub(crate) fn complete_core(event: &mut Value) {
    if let Some(map) = event.as_object_mut() {
        complete(map, &CORE);
    }
}

fn renamed<'a>(event: &'a Value, name: impl Fn(&'a str) -> &'a str) -> Value {
    let fields = event.as_object().into_iter().flatten();
    Value::Object(fields.map(|(key, value)| (name(key).to_owned(), value.clone())).collect())
}

fn complete(map: &mut Map<String, Value>, shown: &[(&str, Shown)]) {
    for (name, shown) in shown {
        map.entry(*name).or_insert_with(|| match shown {
            Shown::Map => json!({}),
            Shown::Null => Value::Null,
            Shown::Text => json!(""),
        });
    }
}
