//! Replays a recorded scenario against the pure modules.

use super::objects::{Answer, Kind, NOW, Objects, ParsedRequest, causes, with_causes};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use usher_apiserver::apply::{Request, Reset, View, builtin, update};
use usher_apiserver::meta::field::{Path, joined};
use usher_apiserver::schema::{Schema, definition};

/// Scenarios and steps that need a server.
const BEYOND: [&str; 6] = [
    "does not match the name on the URL",
    "invalid object type",
    "was undeterminable",
    "is invalid: fieldManager",
    "is invalid: fieldValidation",
    "error decoding YAML",
];

/// Replays a scenario; returns the number of compared responses.
pub(crate) fn play(name: &str) -> usize {
    let kinds = kinds();
    let scenario = read(name);
    let mut objects = Objects::default();
    let mut compared = 0;
    for (number, step) in scenario["steps"].as_array().unwrap().iter().enumerate() {
        let Some(expected) = expected(step) else { continue };
        let Some(found) = answer(step, &kinds, &mut objects, &expected) else { continue };
        let (mut found, mut expected) = (simplified(found), expected);
        if step["normalised"].get("unordered").is_some() || step.get("unordered").is_some() {
            (found, expected) = (sorted(found), sorted(expected));
        }
        assert_eq!(found, expected, "step {number} of {name}: {}", step["request"]);
        compared += 1;
    }
    compared
}

fn read(name: &str) -> Value {
    let path = format!("{}/tests/corpus/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn kinds() -> BTreeMap<String, Kind> {
    let mut kinds = BTreeMap::new();
    for step in read("fixtures")["steps"].as_array().unwrap() {
        let body = &step["request"]["body"];
        let Some(plural) = body.pointer("/spec/names/plural").and_then(Value::as_str) else {
            continue;
        };
        let version = &body["spec"]["versions"][0];
        let declared = &version["schema"]["openAPIV3Schema"];
        assert_eq!(definition::check(declared, &Path::new("schema")), []);
        let schema = Schema::parse(declared).unwrap();
        let kind = Kind {
            name: body["spec"]["names"]["kind"].as_str().unwrap().to_owned(),
            view: View::of(&schema),
            schema,
            status: version.pointer("/subresources/status").is_some(),
        };
        kinds.insert(plural.to_owned(), kind);
    }
    kinds
}

fn answer(
    step: &Value,
    kinds: &BTreeMap<String, Kind>,
    objects: &mut Objects,
    expected: &Answer,
) -> Option<Answer> {
    let request = &step["request"];
    let path = request["path"].as_str()?;
    let method = request["method"].as_str()?;
    if path.ends_with("/customresourcedefinitions") {
        return Some(define(&request["body"]));
    }
    let rest = path.strip_prefix("/apis/corpus.example/v1/namespaces/")?;
    let parts: Vec<&str> = rest.split('/').collect();
    let (namespace, kind) = (parts.first()?, kinds.get(*parts.get(1)?)?);
    let message = expected.body["message"].as_str().unwrap_or_default();
    if step.get("watch").is_some() || BEYOND.iter().any(|text| message.contains(text)) {
        return None;
    }
    let query = request["query"].as_object().into_iter().flatten();
    let mut request = ParsedRequest {
        kind,
        key: format!("{}/{}", parts.get(1)?, parts.get(2).unwrap_or(&"")),
        namespace: (*namespace).to_owned(),
        subresource: parts.get(3).copied().unwrap_or_default(),
        query: query
            .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
            .collect(),
        media: request.pointer("/headers/Content-Type").and_then(Value::as_str).unwrap_or_default(),
        body: body(request),
    };
    if method == "PATCH"
        && request.query.contains_key("fieldValidation")
        && !request.media.contains("apply")
    {
        // The message contains the whole object, with times and revisions of a server.
        return None;
    }
    if request.query.contains_key("force") && !request.media.contains("apply") {
        return None;
    }
    match method {
        "POST" => Some(objects.create(&request)),
        "PATCH" => Some(objects.patch(&request)),
        "GET" => Some(objects.get(&request.key)),
        "DELETE" => {
            request.media = "";
            objects.delete(&request.key);
            None
        }
        _ => None,
    }
}

fn define(definition: &Value) -> Answer {
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let at = Path::new("spec.validation.openAPIV3Schema");
    let errors = definition::check(schema, &at);
    let name = definition["metadata"]["name"].as_str().unwrap();
    let message = format!(
        "CustomResourceDefinition.apiextensions.k8s.io \"{name}\" is invalid: {}",
        joined(&errors)
    );
    with_causes(422, &message, &causes(&errors))
}

fn body(request: &Value) -> Vec<u8> {
    if let Some(raw) = request.get("raw_body").and_then(Value::as_str) {
        return raw.as_bytes().to_vec();
    }
    if let Some(repeat) = request.get("body_repeat") {
        let count = usize::try_from(repeat["count"].as_u64().unwrap()).unwrap();
        return Value::from(vec![repeat["item"].clone(); count]).to_string().into_bytes();
    }
    request.get("body").cloned().unwrap_or_default().to_string().into_bytes()
}

fn expected(step: &Value) -> Option<Answer> {
    let recorded = step.get("normalised")?;
    let body = recorded.get("body")?;
    let warnings = recorded["warnings"].as_array()?;
    let status = recorded["status"].as_u64()?;
    let body = if body["kind"] == "Status" && status >= 400 {
        let message = if status == 404 { json!("not found") } else { body["message"].clone() };
        let causes = body.pointer("/details/causes").cloned().unwrap_or_else(|| json!([]));
        json!({"message": message, "causes": causes})
    } else {
        body.clone()
    };
    let answer = Answer {
        status,
        warnings: warnings.iter().map(|text| text.as_str().unwrap().to_owned()).collect(),
        body,
    };
    Some(simplified(answer))
}

/// Removes what only a server sets, and sorts the managers as in the recordings.
fn simplified(mut answer: Answer) -> Answer {
    let text = answer.body.to_string().replace(NOW, "<time>");
    answer.body = serde_json::from_str(&text).unwrap();
    let Some(Value::Object(meta)) = answer.body.get_mut("metadata") else { return answer };
    for name in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
        if name != "generation" || meta.contains_key("deletionTimestamp") {
            meta.remove(name);
        }
    }
    if let Some(Value::Array(managers)) = meta.get_mut("managedFields") {
        let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        managers.sort_by_key(|entry| {
            ["operation", "manager", "subresource", "apiVersion"].map(|name| text(entry, name))
        });
    }
    answer
}

fn sorted(mut answer: Answer) -> Answer {
    if let Some(Value::Array(causes)) = answer.body.get_mut("causes") {
        causes.sort_by_key(ToString::to_string);
        answer.body["message"] = Value::Null;
    }
    answer
}

/// Compares the field owners of every created built-in object in all scenarios.
pub(crate) fn created_built_ins() -> usize {
    let folder = format!("{}/tests/corpus", env!("CARGO_MANIFEST_DIR"));
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".json") else { continue };
        for step in read(name)["steps"].as_array().unwrap() {
            let posted = step["request"]["method"] == "POST" && step["normalised"]["status"] == 201;
            let body = &step["normalised"]["body"];
            let (true, Some(version), Some(kind)) =
                (posted, body["apiVersion"].as_str(), body["kind"].as_str())
            else {
                continue;
            };
            if version.starts_with("corpus.example") || kind == "PartialObjectMetadata" {
                continue;
            }
            owned_alike(version, kind, body);
            compared += 1;
        }
    }
    compared
}

fn owned_alike(version: &str, kind: &str, created: &Value) {
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let mut object = created.clone();
    let expected = object["metadata"]["managedFields"].take();
    if kind == "Namespace" {
        // Its finalizer is added after the managers were recorded.
        object["spec"] = json!({});
    }
    let request = Request {
        manager: "corpus",
        api_version: version,
        subresource: "",
        now: NOW,
        reset: Reset::Status,
    };
    let empty = builtin::empty(group, kind);
    update(&builtin::view(group, kind), &empty, &object, request).write(&mut object);
    let found = object["metadata"]["managedFields"].pointer("/0/fieldsV1");
    assert_eq!(found, expected.pointer("/0/fieldsV1"), "{kind} {created}");
}
