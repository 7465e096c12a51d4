//! Where the embedded server differs on purpose, and why.

use serde_json::json;

use crate::compare::Difference;
use crate::objects::head;
use crate::request::{APPLY, Request};
use crate::world::{ACCOUNT, CONFIG_MAP, LEASE, WIDGET};

/// A difference that is wanted.
pub(crate) struct Deviation {
    /// The kind of the difference begins with this text.
    pub(crate) kind: &'static str,
    /// The first differing field has this text in it.
    pub(crate) text: &'static str,
    pub(crate) reason: &'static str,
    /// Requests that show it.
    pub(crate) requests: fn() -> Vec<Request>,
}

/// Every deviation. A run plays the requests of each and fails if one no longer differs.
pub(crate) const DEVIATIONS: [Deviation; 4] = [
    Deviation {
        kind: "DELETE serviceaccounts: /metadata/resourceVersion",
        text: "<rv",
        reason: "a deleted service account is returned with its last revision, not with that of \
                 the deletion",
        requests: || {
            let body = head(ACCOUNT, "x0");
            vec![
                Request::new("POST", ACCOUNT.plural, ACCOUNT.path()).body(body),
                Request::new("DELETE", ACCOUNT.plural, ACCOUNT.named("x0")),
            ]
        },
    },
    Deviation {
        kind: "PATCH apply-patch+yaml widgets: status 500 -> 422",
        text: "embedded 422",
        reason: "the scalars of an apply are checked by the schema only, not before it by their \
                 type, so that the answer is Invalid and not an internal error",
        requests: || {
            let mut body = head(WIDGET, "x0");
            body["spec"]["size"] = json!("big");
            let apply = Request::new("PATCH", WIDGET.plural, WIDGET.named("x0")).media(APPLY);
            vec![apply.body(body).with("fieldManager", "m1")]
        },
    },
    Deviation {
        kind: "PATCH apply-patch+yaml configmaps: /message",
        text: "expected string, got",
        reason: "the scalars of an apply to a built-in kind are checked when it is decoded, so \
                 that the same error has another message",
        requests: || {
            let mut body = head(CONFIG_MAP, "x0");
            body["data"]["k0"] = json!(7);
            let path = CONFIG_MAP.named("x0");
            let apply = Request::new("PATCH", CONFIG_MAP.plural, path).media(APPLY);
            vec![apply.body(body).with("fieldManager", "m1")]
        },
    },
    Deviation {
        kind: "PUT leases: /metadata/resourceVersion",
        text: "embedded absent",
        reason: "a PUT that would create in a dry run does not return the revision of its body",
        requests: || {
            let mut body = head(LEASE, "x0");
            body["metadata"]["resourceVersion"] = json!("1");
            let put = Request::new("PUT", LEASE.plural, LEASE.named("x0")).body(body);
            vec![put.with("dryRun", "All")]
        },
    },
];

/// The deviation that explains a difference.
pub(crate) fn explains(found: &Difference) -> Option<&'static Deviation> {
    let first = found.lines.first().map(String::as_str).unwrap_or_default();
    DEVIATIONS.iter().find(|it| found.kind.starts_with(it.kind) && first.contains(it.text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_few_and_each_has_a_reason() {
        assert!(DEVIATIONS.len() <= 15);
        assert!(DEVIATIONS.iter().all(|it| !it.kind.is_empty() && it.reason.len() > 20));
    }
}
