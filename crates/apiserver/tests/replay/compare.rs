//! Compares a response with the recorded one.

use std::cell::RefCell;
use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// The captured values of this run, by name.
pub(crate) type Names = BTreeMap<String, String>;

/// The prefix of a list's revision: an object may have the same one by chance.
pub(crate) const LIST: &str = "list:";

/// Means that any revision matches.
const MARK: &str = "list:";

/// The differences between the recorded value and ours, one per line.
pub(crate) fn differences(expected: &Value, actual: &Value, names: &Names) -> Vec<String> {
    let mut found = Vec::new();
    let expected = &ordered(expected);
    walk(expected, actual, (names, ""), &mut found);
    found
}

/// Replaces the names of a scenario by their values.
pub(crate) fn filled(value: &Value, names: &Names) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text, names)),
        Value::Array(list) => list.iter().map(|item| filled(item, names)).collect(),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (fill(key, names), filled(value, names)));
            Value::Object(entries.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Sorts lists whose order is not defined.
pub(crate) fn ordered(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut out = Map::new();
            for (key, child) in map {
                let mut child = ordered(child);
                if let (true, Some(list)) = (key == "managedFields", child.as_array_mut()) {
                    list.sort_by_cached_key(|entry| {
                        ["operation", "manager", "subresource", "apiVersion"]
                            .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
                    });
                }
                out.insert(key.clone(), child);
            }
            Value::Object(out)
        }
        Value::Array(list) => list.iter().map(ordered).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

pub(crate) fn fill(text: &str, names: &Names) -> String {
    let mut text = text.to_owned();
    if !text.contains("${") {
        return text;
    }
    for (name, value) in names {
        text = text.replace(&format!("${{{name}}}"), value);
    }
    text
}

fn walk(expected: &Value, actual: &Value, at: (&Names, &str), found: &mut Vec<String>) {
    let (names, path) = at;
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(got)) => {
            let mut loose = Names::new();
            let bookmark = wanted.get("type").and_then(Value::as_str) == Some("BOOKMARK");
            let names = if bookmark {
                loose.clone_from(names);
                loose.insert(MARK.to_owned(), String::new());
                &loose
            } else {
                names
            };
            let wanted: BTreeMap<String, &Value> =
                wanted.iter().map(|(key, value)| (fill(key, names), value)).collect();
            for (key, value) in &wanted {
                let path = format!("{path}/{key}");
                match got.get(key) {
                    Some(other) => walk(value, other, (names, &path), found),
                    None => found.push(format!("  {path}: missing, expected {}", short(value))),
                }
            }
            for (key, value) in got.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
                found.push(format!("  {path}/{key}: not expected, got {}", short(value)));
            }
        }
        (Value::Array(wanted), Value::Array(got)) => {
            if wanted.len() != got.len() {
                found.push(format!(
                    "  {path}: expected {} items, got {}: {}",
                    wanted.len(),
                    got.len(),
                    short(actual)
                ));
                return;
            }
            for (index, (wanted, got)) in wanted.iter().zip(got).enumerate() {
                walk(wanted, got, (names, &format!("{path}/{index}")), found);
            }
        }
        (Value::String(wanted), Value::String(got)) => {
            if !same_text(wanted, got, at) {
                found.push(format!("  {path}:\n    expected {wanted:?}\n    got      {got:?}"));
            }
        }
        (Value::String(wanted), Value::Number(got)) if wanted.starts_with('<') => {
            if !same_text(wanted, &got.to_string(), at) {
                found.push(format!("  {path}: expected {wanted}, got {got}"));
            }
        }
        (wanted, got) => {
            if wanted != got {
                found.push(format!("  {path}: expected {}, got {}", short(wanted), short(got)));
            }
        }
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(300).collect()
}

/// Whether a string matches the recorded one, with its wildcards.
fn same_text(wanted: &str, got: &str, (names, path): (&Names, &str)) -> bool {
    if path.ends_with("/description") && wanted == "<description>" {
        return true;
    }
    let wanted = fill(wanted, names);
    if !wanted.contains('<') {
        return wanted == got;
    }
    let whole = wanted == "<rv>" || wanted == "<uid>";
    let of_list = path == "/metadata/resourceVersion" || names.contains_key(MARK);
    let captured = names.iter().any(|(name, value)| {
        value == got && !name.starts_with(LIST) && !names.contains_key(&format!("{LIST}{name}"))
    });
    if whole && !of_list && captured {
        return false;
    }
    if let Some((_, part)) = WILDCARDS.iter().find(|(name, _)| *name == wanted) {
        return WHOLE.with(|whole| {
            whole
                .borrow_mut()
                .entry(part)
                .or_insert_with(|| pattern(&format!("^(?:{part})$")))
                .is_match(got)
        });
    }
    let mut text = String::from("^");
    let mut rest = wanted.as_str();
    while let Some(start) = rest.find('<') {
        let (before, after) = rest.split_at(start);
        text.push_str(&regex::escape(before));
        let wildcard = WILDCARDS.iter().find(|(name, _)| after.starts_with(name));
        let (length, part) = match wildcard {
            Some((name, part)) => (name.len(), (*part).to_owned()),
            None => (1, "<".to_owned()),
        };
        text.push_str(&part);
        rest = after.get(length..).unwrap_or_default();
    }
    text.push_str(&regex::escape(rest));
    text.push('$');
    pattern(&text).is_match(got)
}

const WILDCARDS: [(&str, &str); 6] = [
    ("<uid>", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    ("<rv>", "[1-9][0-9]*"),
    ("<time>", "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,9})?Z"),
    ("<continue>", "[-_A-Za-z0-9=]+"),
    ("<age>", "[0-9]+[smhd].*|<invalid>"),
    ("<hash>", "[0-9a-f]+"),
];

thread_local! {
    static WHOLE: RefCell<BTreeMap<&'static str, Regex>> = const { RefCell::new(BTreeMap::new()) };
}

fn pattern(text: &str) -> Regex {
    RegexBuilder::new(text)
        .size_limit(1 << 26)
        .dot_matches_new_line(true)
        .build()
        .expect("a pattern")
}
