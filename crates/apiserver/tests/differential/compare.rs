//! Compares two answers.

use serde_json::Value;

use crate::request::Request;
use crate::side::Answer;

/// How many lines of a difference are kept.
const LINES: usize = 12;

/// How two answers differ.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    /// What differs, without values: differences of one kind have one cause.
    pub(crate) kind: String,
    /// The fields with both values.
    pub(crate) lines: Vec<String>,
}

/// How the answers to a request differ.
pub(crate) fn difference(request: &Request, real: &Answer, ours: &Answer) -> Option<Difference> {
    let mut found = Vec::new();
    if real.status != ours.status {
        found.push(("status".to_owned(), real.status.to_string(), ours.status.to_string()));
    }
    if real.media != ours.media {
        found.push(("media type".to_owned(), real.media.clone(), ours.media.clone()));
    }
    if real.warnings != ours.warnings {
        let texts = (format!("{:?}", real.warnings), format!("{:?}", ours.warnings));
        found.push(("warnings".to_owned(), texts.0, texts.1));
    }
    walk(&real.body, &ours.body, "", &mut found);
    let (first, expected, actual) = found.first()?.clone();
    let what = if first == "status" {
        format!(
            "status {expected} -> {actual} {}",
            real.body["reason"].as_str().unwrap_or_default()
        )
    } else {
        general(&first)
    };
    let media = request.media.trim_start_matches("application/");
    let media = if request.method == "PATCH" { format!(" {media}") } else { String::new() };
    let sub = ["/status", "/scale"].into_iter().find(|sub| request.path.ends_with(sub));
    let kind =
        format!("{}{media} {}{}: {what}", request.method, request.plural, sub.unwrap_or_default());
    let lines = found.iter().take(LINES).map(|(path, real, ours)| {
        format!("  {path}\n      real     {}\n      embedded {}", short(real), short(ours))
    });
    Some(Difference { kind, lines: lines.collect() })
}

/// A path without the numbers in it.
fn general(path: &str) -> String {
    let parts = path.split('/').map(|part| {
        let number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let name = part.starts_with('x') || part.starts_with("diff-") || part.starts_with("<name");
        if number || name { "*" } else { part }
    });
    parts.collect::<Vec<_>>().join("/")
}

fn walk(real: &Value, ours: &Value, path: &str, found: &mut Vec<(String, String, String)>) {
    match (real, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let absent = || "absent".to_owned();
            for (key, value) in left {
                let path = format!("{path}/{key}");
                match right.get(key) {
                    Some(other) => walk(value, other, &path, found),
                    None => found.push((path, value.to_string(), absent())),
                }
            }
            for (key, value) in right.iter().filter(|(key, _)| !left.contains_key(*key)) {
                found.push((format!("{path}/{key}"), absent(), value.to_string()));
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                walk(left, right, &format!("{path}/{index}"), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => found.push((path.to_owned(), left.to_string(), right.to_string())),
    }
}

fn short(text: &str) -> String {
    text.chars().take(700).collect()
}
