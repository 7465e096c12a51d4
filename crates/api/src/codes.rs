//! The HTTP status of every code; each code has a page in `docs/codes`.

use usher_domain::object::name::SUFFIX;

/// Codes by status, including those of contexts that have no route yet.
pub const BY_STATUS: [(u16, &[&str]); 13] = [
    (
        400,
        &[
            "body_invalid",
            "cursor_invalid",
            "idempotency_key_invalid",
            "path_invalid",
            "query_invalid",
        ],
    ),
    (
        401,
        &[
            "key_revoked",
            "token_expired",
            "token_id",
            "token_length",
            "token_prefix",
            "token_revoked",
            "token_secret",
            "token_unknown",
            "unauthenticated",
        ],
    ),
    (
        403,
        &[
            "client_certificate_required",
            "credential_not_approved",
            "credential_not_assigned",
            "forbidden",
            "project_mismatch",
            "self_approval_denied",
            "usage_consent_missing",
        ],
    ),
    (
        404,
        &[
            "assignment_not_found",
            "attempt_not_found",
            "blueprint_not_found",
            "cloud_not_found",
            "credential_not_found",
            "demand_not_found",
            "machine_not_found",
            "node_not_found",
            "operator_token_not_found",
            "project_not_found",
            "provisioned_resource_not_found",
            "route_not_found",
            "shard_not_found",
            "tenancy_not_found",
            "world_not_found",
        ],
    ),
    (405, &["method_not_allowed"]),
    (408, &["body_timeout"]),
    (
        409,
        &[
            "assignment_state",
            "cluster_served",
            "credential_expired",
            "credential_revoked",
            "idempotency_key_reused",
            "identity_foreign",
            "in_use",
            "key_changed",
            "key_file_read_only",
            "key_in_use",
            "machine_binding",
            "machine_busy",
            "machine_held",
            "machine_not_held",
            "machine_state",
            "mark_in_use",
            "name_in_use",
            "namespace_in_use",
            "namespace_not_ready",
            "node_deregistration_failed",
            "nonce_collision",
            "not_abandoned",
            "not_disputed",
            "not_leaving",
            "not_replaceable",
            "peer_leaving",
            "peer_live",
            "replay_begun",
            "resource_leaving",
            "resources_live",
            "still_referenced",
            "token_consumed",
            "tombstones_live",
            "usage_circle",
            "version_published",
        ],
    ),
    (410, &["cursor_forgotten"]),
    (413, &["body_too_large"]),
    (415, &["content_type_unsupported"]),
    (
        422,
        &[
            "agent_image_digest",
            "agent_image_repository",
            "agent_image_tag",
            "agent_image_too_long",
            "agent_image_unpinned",
            "api_url_host",
            "api_url_insecure",
            "api_url_path",
            "api_url_port",
            "api_url_scheme",
            "api_url_too_long",
            "blueprint_unsound",
            "demand_too_long",
            "fleet_name",
            "gang_unsupported",
            "grant_project_missing",
            "grant_project_superfluous",
            "identity_malformed",
            "injection_strategy_unknown",
            "interruption_probability",
            "invalid_input",
            "kv_mount",
            "kv_path",
            "label_key_name",
            "label_key_prefix",
            "label_value",
            "labels_too_many",
            "machine_field",
            "machine_host",
            "mesh_role_unknown",
            "metadata_malformed",
            "need_empty",
            "need_requirement",
            "nonce_invalid",
            "parameter_values_invalid",
            "penalty",
            "price",
            "project_name",
            "project_slug",
            "provider_unknown",
            "provider_unsupported",
            "public_key_encoding",
            "public_key_zero",
            "quantity",
            "reason_required",
            "receipt_invalid",
            "reference_ambiguous",
            "reference_empty",
            "reference_external",
            "reference_name",
            "reference_shape",
            "schema_default_type",
            "schema_parameter_duplicate",
            "schema_parameter_name",
            "schema_parameter_reserved",
            "schema_required_with_default",
            "schema_too_many_parameters",
            "secret_name_invalid",
            "shard_required",
            "sink_secret_name",
            "sink_url_insecure",
            "sink_url_invalid",
            "slug_invalid",
            "spread_unsupported",
            "token_lifetime",
            "usage_field_invalid",
            "usage_field_missing",
            "usage_kind",
            "usage_kind_unknown",
            "usage_kind_unsupported",
            "usage_namespace_missing",
            "usage_namespace_superfluous",
            "usage_purpose_missing",
            "usage_reference_ambiguous",
            "usage_scope_unsupported",
            "usage_selector_empty",
            "usage_too_many",
            "usage_user_elsewhere",
            "usage_user_required",
            "usage_uses_itself",
            "xrd_api_version",
            "xrd_kind",
            "xrd_name",
            "xrd_no_served_version",
            "xrd_part_missing",
            "xrd_part_syntax",
            "xrd_scope",
        ],
    ),
    (500, &["internal"]),
    (
        503,
        &[
            "key_missing",
            "schema_behind",
            "schema_changed",
            "schema_foreign",
            "schema_newer",
            "schema_too_far",
            "unavailable",
        ],
    ),
];

pub fn status(code: &str) -> Option<u16> {
    BY_STATUS.iter().find(|(_, codes)| codes.contains(&code)).map(|(status, _)| *status)
}

/// The documentation page of a code.
pub fn page(code: &str) -> String {
    format!("https://{SUFFIX}/docs/codes/{code}.md")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn listed() -> Vec<&'static str> {
        BY_STATUS.iter().flat_map(|(_, codes)| codes.iter().copied()).collect()
    }

    // Requirement: HC-5
    #[test]
    fn every_page_has_one_status_and_every_status_a_page() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/codes");
        let pages: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap().replace(".md", ""))
            .collect();
        let codes: BTreeSet<String> = listed().into_iter().map(str::to_owned).collect();
        assert_eq!(pages, codes);
        assert_eq!(codes.len(), listed().len(), "a code is in two rows");
    }

    #[test]
    fn an_unknown_code_has_no_status() {
        assert_eq!(status("name_in_use"), Some(409));
        assert_eq!(status("name"), None);
        assert_eq!(page("name_in_use"), "https://usher.dev/docs/codes/name_in_use.md");
    }
}
