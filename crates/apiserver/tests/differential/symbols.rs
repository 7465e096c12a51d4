//! What each server chooses itself (ids, revisions, times, generated names), replaced by the order
//! in which it first appears, so that two servers can be compared. These are all the rules.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// An id that no object has.
const NO_UID: &str = "00000000-0000-4000-8000-000000000000";

/// How a refused apply begins.
const UNTYPED: &str = "failed to create typed patch object";
const UNDECLARED: &str = "field not declared in schema";

/// The fields that hold the server's clock.
const TIMES: [&str; 4] = ["creationTimestamp", "deletionTimestamp", "time", "lastTransitionTime"];

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static REVISION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?i)(resource ?version[a-z ]*[: (]+)([0-9]+)"));
/// Depends on how the real server was built.
static SCHEME: LazyLock<Regex> = LazyLock::new(|| pattern("in scheme \"[^\"]*\""));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^([0-9]+[smhd])+$"));
static PLACEHOLDER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\$\{(uid|rv|old|continue|list):([^}]+)\}"));

/// What one server chose in one seed.
#[derive(Default, Clone)]
pub(crate) struct Symbols {
    namespace: String,
    uids: Vec<String>,
    revisions: Vec<String>,
    names: Vec<String>,
    /// The last id and revision of an object, and its first revision, by plural and name.
    objects: BTreeMap<String, Seen>,
    /// The last list of a kind, by plural.
    lists: BTreeMap<String, List>,
}

#[derive(Default, Clone)]
struct List {
    revision: String,
    /// The continue token; empty after the last page.
    next: String,
}

#[derive(Default, Clone)]
struct Seen {
    uid: String,
    revision: String,
    first: String,
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern")
}

impl Symbols {
    pub(crate) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    /// Replaces the placeholders of a request.
    pub(crate) fn resolved(&self, text: &str) -> String {
        let text = text.replace("${ns}", &self.namespace);
        let text = PLACEHOLDER.replace_all(&text, |found: &Captures<'_>| {
            let seen = self.objects.get(&found[2]);
            let list = self.lists.get(&found[2]);
            match (&found[1], seen) {
                ("continue", _) => list.map(|list| list.next.clone()).unwrap_or_default(),
                // Any revision, where no list was seen.
                ("list", _) => list.map_or("0".to_owned(), |list| list.revision.clone()),
                ("uid", Some(seen)) => seen.uid.clone(),
                ("uid", None) => no_uid(&found[2]),
                ("rv", Some(seen)) => seen.revision.clone(),
                ("old", Some(seen)) => seen.first.clone(),
                _ => "1".to_owned(),
            }
        });
        text.into_owned()
    }

    /// Remembers the objects of an answer.
    pub(crate) fn learn(&mut self, plural: &str, body: &Value) {
        for item in body["items"].as_array().into_iter().flatten() {
            self.learn(plural, item);
        }
        let metadata = &body["metadata"];
        if is_list(body) {
            let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
            let list = List { revision: text("resourceVersion"), next: text("continue") };
            self.lists.insert(plural.to_owned(), list);
        }
        let (Some(name), Some(uid)) = (metadata["name"].as_str(), metadata["uid"].as_str()) else {
            return;
        };
        let key = format!("{plural}/{}", name.replace(&self.namespace, "${ns}"));
        let revision = metadata["resourceVersion"].as_str().unwrap_or_default();
        let seen = self.objects.entry(key).or_default();
        if seen.uid != uid {
            revision.clone_into(&mut seen.first);
        }
        uid.clone_into(&mut seen.uid);
        if !revision.is_empty() {
            revision.clone_into(&mut seen.revision);
        }
    }

    /// Remembers a name that the server made of a prefix, for an object or a refusal.
    pub(crate) fn learn_name(&mut self, prefix: &str, body: &Value) {
        for name in ["/metadata/name", "/details/name"] {
            let name = body.pointer(name).and_then(Value::as_str).unwrap_or_default();
            if name.len() > prefix.len() && name.starts_with(prefix) {
                self.names.push(name.to_owned());
            }
        }
    }

    /// A name or a warning, without what the server chose.
    pub(crate) fn name(&mut self, name: &str) -> String {
        self.text(name, "")
    }

    /// The answer without what the server chose.
    pub(crate) fn normalised(&mut self, body: &Value) -> Value {
        let is_list = is_list(body);
        let mut body = body.clone();
        let metadata = body.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata.filter(|_| is_list) {
            metadata.remove("resourceVersion");
            let token = metadata.get_mut("continue").filter(|token| *token != "");
            if let Some(token) = token {
                *token = Value::from("<continue>");
            }
        }
        unordered_causes(&mut body);
        // What a column is for is said in other words.
        let columns = body.get_mut("columnDefinitions").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten() {
            column["description"] = Value::Null;
        }
        self.value(&body, "")
    }

    fn value(&mut self, value: &Value, key: &str) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text, key)),
            Value::Array(list) => {
                let list: Vec<Value> = list.iter().map(|item| self.value(item, key)).collect();
                match key {
                    "managedFields" => Value::Array(ordered(list)),
                    "items" | "all" => Value::Array(by_name(list)),
                    _ => Value::Array(list),
                }
            }
            Value::Object(map) => {
                let mut out = Map::new();
                for (key, value) in map {
                    let name = self.text(key, "");
                    out.insert(name, self.value(value, key));
                }
                Value::Object(out)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn text(&mut self, text: &str, key: &str) -> String {
        let whole = match key {
            "message" => with_object(text, |object| self.value(&object, "")),
            _ => text.to_owned(),
        };
        let text = whole.as_str();
        if TIMES.contains(&key) && text.parse::<jiff::Timestamp>().is_ok() {
            return "<time>".to_owned();
        }
        if key == "resourceVersion" {
            return format!("<rv {}>", index(&mut self.revisions, text));
        }
        if key == "cells" && AGE.is_match(text) {
            return "<age>".to_owned();
        }
        let mut text = UID
            .replace_all(text, |found: &Captures<'_>| match &found[0] {
                NO_UID => NO_UID.to_owned(),
                uid => format!("<uid {}>", index(&mut self.uids, uid)),
            })
            .into_owned();
        if key == "message" {
            let revisions = &mut self.revisions;
            let numbered = REVISION.replace_all(&text, |found: &Captures<'_>| {
                format!("{}<rv {}>", &found[1], index(revisions, &found[2]))
            });
            text = SCHEME.replace_all(&numbered, "in scheme").into_owned();
            text = worded(&text);
        }
        for (index, name) in self.names.iter().enumerate() {
            text = text.replace(name, &format!("<name {index}>"));
        }
        text
    }
}

fn is_list(body: &Value) -> bool {
    body["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) || body["kind"] == "Table"
}

/// The id of an object that never was: another one for each, because the collector of a real server
/// knows absent owners by their ids.
fn no_uid(object: &str) -> String {
    let number = object.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    format!("{}{:012x}", &NO_UID[..24], number & 0xffff_ffff_ffff)
}

fn index(known: &mut Vec<String>, text: &str) -> usize {
    known.iter().position(|it| it == text).unwrap_or_else(|| {
        known.push(text.to_owned());
        known.len() - 1
    })
}

/// What the real server says in other words in a dry run or with another decoder, and errors in the
/// order of a Go map.
fn worded(text: &str) -> String {
    let text = text.replace("Key: /registry/", "Key: /");
    let text = text.replace("ObjectMeta.metadata.", "ObjectMeta.");
    // At the first undeclared field of a Go map the real server leaves the rest of it unchecked.
    if let Some((start, errors)) = text.split_once("): ").filter(|_| text.starts_with(UNTYPED))
        && errors.contains(UNDECLARED)
    {
        return format!("{start}): <{UNDECLARED}>");
    }
    let Some((start, errors)) = text.split_once("errors:\n") else { return text };
    let mut errors: Vec<&str> = errors.lines().collect();
    errors.sort_unstable();
    format!("{start}errors:\n{}", errors.join("\n"))
}

/// A message with the object that an undecodable patch would have made, changed and by key: Go
/// knows the order of a struct's fields.
pub(crate) fn with_object(text: &str, mut change: impl FnMut(Value) -> Value) -> String {
    const BEFORE: &str = "Invalid value: ";
    let Some((start, rest)) = text.split_once(BEFORE) else { return text.to_owned() };
    let mut literals = serde_json::Deserializer::from_str(rest).into_iter::<String>();
    let object = literals.next().and_then(Result::ok);
    let object = object.and_then(|object| serde_json::from_str::<Value>(&object).ok());
    let Some(object) = object.filter(Value::is_object) else { return text.to_owned() };
    let end = rest.get(literals.byte_offset()..).unwrap_or_default();
    format!("{start}{BEFORE}{}{end}", change(object))
}

/// The causes of a conflict or an invalid custom object come in the order of a Go map.
fn unordered_causes(body: &mut Value) {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let (kind, reason) = (text("kind") == Some("Status"), text("reason"));
    let reason = reason.unwrap_or_default().to_owned();
    let custom = body.pointer("/details/group").is_some_and(|group| group == "diff.example");
    if !kind || reason != "Conflict" && !(reason == "Invalid" && custom) {
        return;
    }
    let causes = body.pointer_mut("/details/causes").and_then(Value::as_array_mut);
    let Some(causes) = causes.filter(|causes| causes.len() > 1) else { return };
    if reason == "Conflict" {
        causes.sort_by_cached_key(|cause| cause["message"].to_string());
        return;
    }
    causes.sort_by_cached_key(Value::to_string);
    // The message repeats the causes.
    let message = body["message"].as_str().unwrap_or_default();
    let start = message.split(" is invalid: [").next().unwrap_or_default().to_owned();
    body["message"] = Value::from(start);
}

/// Generated names have another order on every server.
fn by_name(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by_cached_key(|item| item["metadata"]["name"].to_string());
    items
}

/// Entries of several managers written in the same second have no order.
fn ordered(mut entries: Vec<Value>) -> Vec<Value> {
    entries.sort_by_cached_key(|entry| {
        ["operation", "manager", "subresource", "apiVersion"]
            .map(|key| entry[key].as_str().unwrap_or_default().to_owned())
    });
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

    fn object(uid: &str, revision: &str) -> Value {
        json!({"metadata": {
            "name": "x1", "uid": uid, "resourceVersion": revision,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }, "data": {"creationTimestamp": "soon", "n": "57"}})
    }

    #[test]
    fn two_servers_with_other_ids_revisions_and_times_say_the_same() {
        let mut one = Symbols::new("diff-0");
        let mut other = Symbols::new("diff-0");
        let uid = ID.replace('a', "b");
        let both = (one.normalised(&object(ID, "57")), other.normalised(&object(&uid, "9")));
        assert_eq!(both.0, both.1);
        assert_eq!(both.0["data"], json!({"creationTimestamp": "soon", "n": "57"}));
        let next = one.normalised(&object(ID, "58"));
        assert_eq!(next["metadata"]["uid"], "<uid 0>");
        assert_eq!(next["metadata"]["resourceVersion"], "<rv 1>");
        assert_ne!(next, other.normalised(&object(&uid, "9")), "a write that changed nothing");
    }

    #[test]
    fn an_object_in_a_message_is_sorted() {
        let text = r#"x: patch: Invalid value: "{\"b\":1,\"a\":2}": json: no"#;
        let sorted = r#"x: patch: Invalid value: {"a":2,"b":1}: json: no"#;
        assert_eq!(with_object(text, |object| object), sorted);
        assert_eq!(with_object("other", |object| object), "other");
    }

    #[test]
    fn placeholders_become_what_the_server_said_last() {
        let mut symbols = Symbols::new("diff-3");
        assert_eq!(
            symbols.resolved("${ns} ${uid:widgets/x1} ${rv:widgets/x1}"),
            format!("diff-3 {} 1", no_uid("widgets/x1"))
        );
        symbols.learn("widgets", &object(ID, "4"));
        symbols.learn("widgets", &object(ID, "6"));
        assert_eq!(
            symbols.resolved("${uid:widgets/x1} ${rv:widgets/x1} ${old:widgets/x1}"),
            format!("{ID} 6 4")
        );
    }
}
