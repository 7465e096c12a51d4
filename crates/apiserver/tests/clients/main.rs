//! Clients that others wrote: the controllers, reflectors and recorders of kube-rs, and a crate
//! that elects leaders.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod apply;
mod controller;
mod leader_election;
mod recorder;
mod reflector;

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
