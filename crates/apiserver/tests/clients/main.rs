//! Clients that others wrote: the controllers, reflectors and recorders of kube-rs, and a crate
//! that elects leaders.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

mod applying;
mod controlling;
mod leading;
mod recording;
mod reflecting;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

/// A map with one entry.
pub(crate) fn config_map(name: &str, key: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {key: value},
    }))
    .expect("a config map")
}
