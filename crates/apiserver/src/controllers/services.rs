//! One `APIService` per served group and version.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::core::Core;
use crate::store::{Expect, Write};
use crate::{clock, discovery};

const TABLE: &str = "apiservices.apiregistration.k8s.io";
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
const PRIORITY_BUILTIN: u32 = 17_000;
const PRIORITY_CUSTOM: u32 = 1000;

/// Creates and deletes services to match the served versions.
pub(super) async fn reconcile(core: &Arc<Core>) {
    let kinds = core.registry.kinds();
    let mut wanted: BTreeMap<String, Value> = BTreeMap::new();
    for group in discovery::names(&kinds) {
        let custom = kinds
            .all()
            .iter()
            .any(|resource| resource.group == group && resource.custom().is_some());
        for version in discovery::versions(&kinds, &group) {
            let name = format!("{version}.{group}");
            let Ok(uid) = clock::uid() else {
                tracing::warn!("failed to write APIServices: no random bytes");
                return;
            };
            let mut service = service(&name, (&group, &version), custom);
            service["metadata"]["uid"] = json!(uid);
            wanted.insert(name, service);
        }
    }
    let there = core.store.list(TABLE, "");
    for (key, entry) in &there.objects {
        if wanted.remove(key.as_ref()).is_none() {
            let expect = Expect::Revision(entry.revision);
            write(core, key.clone(), expect, None).await;
        }
    }
    for (name, value) in wanted {
        write(core, Arc::from(name), Expect::Absent, Some(value)).await;
    }
}

async fn write(core: &Core, key: Arc<str>, expect: Expect, value: Option<Value>) {
    let write = Write { table: Arc::from(TABLE), key, expect, value, preconditions: Vec::new() };
    if let Err(error) = core.store.write(write).await {
        tracing::warn!(%error, "failed to write an APIService");
    }
}

fn service(name: &str, (group, version): (&str, &str), custom: bool) -> Value {
    let now = clock::now();
    let mut spec = json!({
        "version": version,
        "groupPriorityMinimum": if custom { PRIORITY_CUSTOM } else { PRIORITY_BUILTIN },
        "versionPriority": 100,
    });
    if !group.is_empty() {
        spec["group"] = json!(group);
    }
    let label = if custom { "true" } else { "onstart" };
    let written: serde_json::Map<String, Value> = spec
        .as_object()
        .into_iter()
        .flat_map(|spec| spec.keys())
        .map(|key| (format!("f:{key}"), json!({})))
        .collect();
    let managed = json!([{
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": "apiregistration.k8s.io/v1",
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {".": {}, format!("f:{LABEL}"): {}}},
            "f:spec": written,
        },
    }]);
    json!({
        "kind": "APIService",
        "apiVersion": "apiregistration.k8s.io/v1",
        "metadata": {
            "name": name,
            "creationTimestamp": now,
            "labels": {LABEL: label},
            "managedFields": managed,
        },
        "spec": spec,
        "status": {"conditions": [{
            "type": "Available",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "Local",
            "message": "Local APIServices are always available",
        }]},
    })
}
