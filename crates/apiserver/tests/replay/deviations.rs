//! Intended deviations and their reasons.

/// Scenario and reason.
const DEVIATIONS: [(&str, &str); 3] = [
    ("discovery-builtins", "mutating webhooks are not served"),
    ("negotiation-accept", "errors are returned in JSON, never in protobuf"),
    (
        "versions-conversion-none",
        "managed fields of a version that is not stored are kept, not dropped",
    ),
];

/// Why a scenario may deviate; `None` if it may not.
pub(crate) fn reason(name: &str) -> Option<&'static str> {
    DEVIATIONS.iter().find(|(scenario, _)| *scenario == name).map(|(_, reason)| *reason)
}
