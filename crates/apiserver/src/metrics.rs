//! `/metrics` in the text format of Prometheus.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::core::Core;
use crate::counters::RequestKey;
use crate::http::Answer;

const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

pub(crate) fn answer(core: &Core) -> Answer {
    Answer::bytes(200, TYPE, Bytes::from(written(core)))
}

fn written(core: &Core) -> String {
    let mut text = String::new();
    let total = "apiserver_request_total";
    let _ = writeln!(text, "# HELP {total} Answered requests by verb, resource and status.");
    let _ = writeln!(text, "# TYPE {total} counter");
    for (key, count) in core.counters.snapshot() {
        let (resource, group) = key.resource.split_once('.').unwrap_or((key.resource.as_str(), ""));
        let _ = writeln!(
            text,
            "{total}{{code=\"{}\",component=\"apiserver\",group=\"{group}\",\
             resource=\"{resource}\",verb=\"{}\"}} {count}",
            key.code,
            method(&key)
        );
    }
    let objects = "apiserver_storage_objects";
    let _ = writeln!(text, "# HELP {objects} Stored objects by resource.");
    let _ = writeln!(text, "# TYPE {objects} gauge");
    for resource in core.registry.kinds().tables() {
        let count = core.store.count(&resource.table);
        let (group, plural) = (&resource.group, &resource.plural);
        let _ = writeln!(text, "{objects}{{group=\"{group}\",resource=\"{plural}\"}} {count}");
    }
    let revision = "apiserver_storage_revision";
    let _ = writeln!(text, "# HELP {revision} The last published revision.");
    let _ = writeln!(text, "# TYPE {revision} gauge");
    let _ = writeln!(text, "{revision} {}", core.store.head());
    text
}

/// The verb as Kubernetes' metrics name it.
fn method(key: &RequestKey) -> String {
    match key.verb.as_str() {
        "create" => "POST".to_owned(),
        "update" => "PUT".to_owned(),
        other => other.to_uppercase(),
    }
}
