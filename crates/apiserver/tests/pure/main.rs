//! What a real API server answered, request again of the parts that need no server: bodies are
//! read,
//! patched, applied, shaped and checked, and the objects and messages that come out are compared.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod objects;
mod replay;

use replay::play;

/// Replays a scenario; this many responses must have been compared.
fn plays(scenario: &str, compared: usize) {
    assert_eq!(play(scenario), compared, "answers compared in {scenario}");
}

// Requirement: AS-12
#[test]
fn apply_creates_and_drops() {
    plays("ssa-create-and-drop", 5);
}

// Requirement: AS-10
#[test]
fn apply_conflicts_and_is_forced() {
    plays("ssa-conflict-and-force", 6);
}

#[test]
fn apply_keeps_finalizers_as_a_set() {
    plays("ssa-finalizers", 7);
}

#[test]
fn apply_merges_lists_by_key() {
    plays("ssa-list-map", 6);
}

#[test]
fn apply_owns_sets_by_value_and_atomic_values_whole() {
    plays("ssa-set-and-atomic", 7);
}

#[test]
fn apply_merges_owners_by_uid() {
    plays("ssa-owner-references", 4);
}

// Requirement: AS-11
#[test]
fn apply_that_changes_nothing_writes_nothing() {
    plays("ssa-noop", 5);
}

#[test]
fn apply_to_the_status_owns_only_the_status() {
    plays("ssa-status", 6);
}

// Requirement: AS-12
#[test]
fn appliers_share_equal_values() {
    plays("ssa-two-managers-share", 4);
}

// Requirement: AS-10
#[test]
fn updates_own_what_they_write() {
    plays("ssa-update-manager-owns", 7);
}

#[test]
fn managers_can_be_cleared() {
    plays("ssa-clear-managed-fields", 7);
}

#[test]
fn an_object_with_nothing_to_own_is_not_tracked() {
    plays("managed-fields-empty-object", 8);
}

#[test]
fn apply_refuses_bad_requests() {
    plays("ssa-bad-requests", 6);
}

// Requirement: AS-7
#[test]
fn lists_and_maps_are_counted() {
    plays("validate-counts", 7);
}

// Requirement: AS-7
#[test]
fn duplicate_list_items_are_refused() {
    plays("validate-list-types", 5);
}

#[test]
fn many_errors_are_reported_at_once() {
    plays("validate-many-errors", 1);
}

// Requirement: AS-7
#[test]
fn numbers_are_bounded() {
    plays("validate-numbers", 7);
}

#[test]
fn missing_required_fields_are_refused() {
    plays("validate-required", 4);
}

// Requirement: AS-7
#[test]
fn strings_are_checked() {
    plays("validate-strings", 7);
}

// Requirement: AS-7
#[test]
fn types_are_checked() {
    plays("validate-types", 12);
}

#[test]
fn int_or_string_accepts_both() {
    plays("int-or-string", 5);
}

// Requirement: AS-8
#[test]
fn rules_are_evaluated() {
    plays("cel-rules", 7);
}

#[test]
fn embedded_objects_are_checked() {
    plays("embedded-resource", 5);
}

#[test]
fn unknown_fields_are_preserved_where_allowed() {
    plays("preserve-unknown", 4);
}

// Requirement: AS-6
#[test]
fn unknown_fields_are_pruned() {
    plays("prune-unknown", 3);
}

// Requirement: AS-6
#[test]
fn defaults_are_filled_in() {
    plays("default-create", 4);
}

// Requirement: AS-6
#[test]
fn nulls_are_dropped_or_kept() {
    plays("null-handling-create", 5);
}

#[test]
fn field_validation_modes_apply() {
    plays("field-validation-create", 5);
}

#[test]
fn json_patches_work_on_lists() {
    plays("json-patch-arrays", 9);
}

// Requirement: AS-2, AS-3
#[test]
fn malformed_json_patches_are_refused() {
    plays("json-patch-malformed", 9);
}

#[test]
fn json_patch_replace_adds_missing_fields() {
    plays("json-patch-replace-missing", 7);
}

// Requirement: AS-2
#[test]
fn json_patches_test_for_null() {
    plays("json-patch-test-null", 6);
}

// Requirement: AS-4
#[test]
fn merge_patches_apply() {
    plays("merge-patch", 10);
}

// Requirement: AS-5
#[test]
fn names_are_checked() {
    plays("names-invalid", 7);
}

// Requirement: AS-5
#[test]
fn labels_and_annotations_are_checked() {
    plays("labels-annotations-invalid", 7);
}

// Requirement: AS-5
#[test]
fn owners_are_checked() {
    plays("owner-references-invalid", 6);
}

// Requirement: AS-5
#[test]
fn finalizers_are_checked() {
    plays("finalizer-names", 6);
}

// Requirement: AS-9
#[test]
fn schemas_must_be_structural() {
    plays("crd-not-structural", 5);
}

#[test]
fn created_built_in_objects_own_their_fields() {
    assert_eq!(replay::created_built_ins(), 75);
}
