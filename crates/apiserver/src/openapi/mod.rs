//! `OpenAPI` documents, as far as clients use them.

mod names;
mod protobuf;
pub(crate) mod v2;

use serde_json::{Value, json};

use crate::http::Answer;
use crate::kinds::{Kinds, Origin, Resource, api_version};
use crate::status::Refusal;
use crate::{clock, discovery};

/// The list of documents.
pub(crate) fn index(kinds: &Kinds) -> Answer {
    let mut paths = serde_json::Map::new();
    for group in discovery::names(kinds) {
        for version in discovery::versions(kinds, &group) {
            let path = place(&group, &version);
            let hash = hash(&written(kinds, &group, &version).to_string());
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    Answer::json(200, &json!({"paths": paths}))
}

/// The document of a group and version.
pub(crate) fn document(kinds: &Kinds, path: &str) -> Result<Answer, Refusal> {
    for group in discovery::names(kinds) {
        for version in discovery::versions(kinds, &group) {
            if place(&group, &version) == path {
                return Ok(Answer::json(200, &written(kinds, &group, &version)));
            }
        }
    }
    Err(Refusal::no_such_page())
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let start = digest.as_ref().get(..16).unwrap_or_default();
    clock::hex(start).to_uppercase()
}

fn written(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut paths = serde_json::Map::new();
    let mut schemas = serde_json::Map::new();
    let mut meta = metadata();
    names::name_parts(META, &mut meta, &mut schemas);
    schemas.insert(META.to_owned(), meta);
    for resource in kinds.all() {
        if resource.group != group || resource.version != version {
            continue;
        }
        let name = schema_name(resource);
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let mut schema = schema(resource);
        if resource.builtin().is_some() {
            names::name_parts(&name, &mut schema, &mut schemas);
        }
        schemas.insert(name, schema);
        paths.insert(object_path(resource), operations(resource, &reference));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn schema_name(resource: &Resource) -> String {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{}.{}", reversed.join("."), resource.version, resource.kind)
}

fn object_path(resource: &Resource) -> String {
    let base = place(&resource.group, &resource.version);
    let space = if resource.namespaced { "namespaces/{namespace}/" } else { "" };
    format!("/{base}/{space}{}/{{name}}", resource.plural)
}

fn group_kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn operations(resource: &Resource, reference: &Value) -> Value {
    let query = |name: &str| {
        json!({
            "name": name,
            "in": "query",
            "schema": {"type": "string", "uniqueItems": true},
        })
    };
    let parameters: Vec<Value> =
        ["dryRun", "fieldManager", "fieldValidation", "force"].into_iter().map(query).collect();
    let mut content = serde_json::Map::new();
    let mut types = vec![
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ];
    if resource.custom().is_none() {
        types.push("application/strategic-merge-patch+json");
    }
    for media in types {
        content.insert(media.to_owned(), json!({"schema": {"type": "object"}}));
    }
    let answer = json!({
        "200": {
            "description": "OK",
            "content": {"application/json": {"schema": reference}},
        },
    });
    let kind = group_kind(resource);
    let operation = |action: &str, body: Value| {
        let mut operation = json!({
            "operationId": format!("{action}{}{}", resource.version, resource.kind),
            "parameters": parameters,
            "responses": answer,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        });
        if !body.is_null() {
            operation["requestBody"] = json!({"content": body});
        }
        operation
    };
    json!({
        "get": operation("get", Value::Null),
        "put": operation("put", json!({"application/json": {"schema": reference}})),
        "patch": operation("patch", Value::Object(content)),
        "delete": operation("delete", Value::Null),
    })
}

fn schema(resource: &Resource) -> Value {
    let mut schema = match &resource.origin {
        Origin::Custom(custom) => custom.written.clone(),
        Origin::Builtin(builtin) => builtin.schema().clone(),
    };
    if !schema.is_object() {
        schema = json!({});
    }
    schema["type"] = json!("object");
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let text = |about: &str| json!({"type": "string", "description": about});
    let meta = format!("#/components/schemas/{META}");
    schema["properties"]["apiVersion"] = text("The version of the object's form.");
    schema["properties"]["kind"] = text("The kind of the object.");
    schema["properties"]["metadata"] = json!({
        "description": "What every object has.",
        "allOf": [{"$ref": meta}],
        "default": {},
    });
    schema["x-kubernetes-group-version-kind"] = json!([group_kind(resource)]);
    if schema["description"].is_null() {
        let kind = &resource.kind;
        let version = api_version(&resource.group, &resource.version);
        schema["description"] = json!(format!("{kind} of {version}."));
    }
    schema
}

fn metadata() -> Value {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let owner = json!({
        "type": "object",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": text, "kind": text, "name": text, "uid": text,
            "controller": {"type": "boolean"}, "blockOwnerDeletion": {"type": "boolean"},
        },
        "x-kubernetes-map-type": "atomic",
    });
    let manager = json!({
        "type": "object",
        "properties": {
            "apiVersion": text, "fieldsType": text, "fieldsV1": {"type": "object"},
            "manager": text, "operation": text, "subresource": text, "time": time,
        },
    });
    json!({
        "type": "object",
        "description": "What every object has.",
        "properties": {
            "name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text,
            "resourceVersion": text, "generation": {"type": "integer", "format": "int64"},
            "creationTimestamp": time, "deletionTimestamp": time,
            "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
            "labels": texts, "annotations": texts,
            "ownerReferences": {
                "type": "array", "items": owner,
                "x-kubernetes-list-map-keys": ["uid"], "x-kubernetes-list-type": "map",
                "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge",
            },
            "finalizers": {
                "type": "array", "items": text, "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "managedFields": {
                "type": "array", "items": manager, "x-kubernetes-list-type": "atomic",
            },
        },
    })
}
