//! Compares watch events with the recorded ones.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::compare::{self, Names, fill};

/// The differences between the events that were recorded and those that were received. Where the
/// recording groups them by object and is about time, only the order of each object's own counts.
pub(crate) fn differences(
    recorded: &Value,
    events: Vec<Value>,
    timing: bool,
    names: &Names,
) -> Vec<String> {
    let wanted = &recorded["events"];
    let events = without_marks(events, wanted);
    let grouped = recorded["events_grouped_by_object"].as_bool().unwrap_or_default();
    if timing && grouped {
        return grouped_differences(wanted, &events, names);
    }
    compare::differences(wanted, &Value::Array(events), names)
}

/// Removes periodic bookmarks, unless the scenario is about them.
fn without_marks(events: Vec<Value>, wanted: &Value) -> Vec<Value> {
    let periodic = |event: &Value| {
        event["type"] == "BOOKMARK" && event.pointer("/object/metadata/annotations").is_none()
    };
    let mut left = usize::from(wanted.as_array().into_iter().flatten().any(periodic));
    let mut kept = Vec::new();
    for event in events {
        if periodic(&event) {
            if left == 0 {
                continue;
            }
            left -= 1;
        }
        kept.push(event);
    }
    kept
}

/// Compares the events per object; the number of intermediate writes may differ.
fn grouped_differences(wanted: &Value, events: &[Value], names: &Names) -> Vec<String> {
    let wanted = wanted.as_array().cloned().unwrap_or_default();
    let mut ours = grouped(events, names);
    let mut found = Vec::new();
    for (key, wanted) in grouped(&wanted, names) {
        let got = collapsed(ours.remove(&key).unwrap_or_default());
        let wanted = collapsed(wanted);
        let differences = compare::differences(&Value::Array(wanted), &Value::Array(got), names);
        found.extend(differences.into_iter().map(|line| format!("  {key}{line}")));
    }
    found.extend(ours.keys().map(|key| format!("  events of {key} were not expected")));
    found
}

fn grouped(events: &[Value], names: &Names) -> BTreeMap<String, Vec<Value>> {
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in events {
        let part = |pointer: &str| {
            fill(event.pointer(pointer).and_then(Value::as_str).unwrap_or_default(), names)
        };
        let key = format!("{}/{}", part("/object/kind"), part("/object/metadata/name"));
        groups.entry(key).or_default().push(event.clone());
    }
    groups
}

/// Keeps only the last of consecutive changes.
fn collapsed(events: Vec<Value>) -> Vec<Value> {
    let mut kept: Vec<Value> = Vec::new();
    for event in events {
        let again = event["type"] == "MODIFIED"
            && kept.last().is_some_and(|last| last["type"] == "MODIFIED");
        if again {
            kept.pop();
        }
        kept.push(event);
    }
    kept
}
