//! What a real API server answered, asked again of the parts that need no server: bodies are read,
//! patched, applied, shaped and checked, and the objects and messages that come out are compared.

#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod replay;
mod world;

use replay::play;

/// One test per recorded scenario, with the number of answers that must have been compared.
macro_rules! scenarios {
    ($($name:ident $file:literal $compared:literal;)*) => {
        $(
            #[test]
            fn $name() {
                assert_eq!(play($file), $compared, "answers compared in {}", $file);
            }
        )*
    };
}

scenarios! {
    apply_creates_and_drops "ssa-create-and-drop" 5;
    apply_conflicts_and_is_forced "ssa-conflict-and-force" 6;
    apply_keeps_finalizers_as_a_set "ssa-finalizers" 7;
    apply_merges_lists_by_key "ssa-list-map" 6;
    apply_owns_sets_by_value_and_atomic_values_whole "ssa-set-and-atomic" 7;
    apply_merges_owners_by_uid "ssa-owner-references" 4;
    apply_that_changes_nothing_writes_nothing "ssa-noop" 5;
    apply_to_the_status_owns_only_the_status "ssa-status" 6;
    appliers_share_equal_values "ssa-two-managers-share" 4;
    updates_own_what_they_write "ssa-update-manager-owns" 7;
    managers_can_be_cleared "ssa-clear-managed-fields" 7;
    an_object_with_nothing_to_own_is_not_tracked "managed-fields-empty-object" 8;
    apply_refuses_bad_requests "ssa-bad-requests" 6;
    lists_and_maps_are_counted "validate-counts" 7;
    list_items_are_there_once "validate-list-types" 5;
    many_errors_are_told_at_once "validate-many-errors" 1;
    numbers_are_bounded "validate-numbers" 7;
    required_fields_are_missed "validate-required" 4;
    texts_are_checked "validate-strings" 7;
    types_are_checked "validate-types" 12;
    integers_or_texts_are_taken "int-or-string" 5;
    rules_are_evaluated "cel-rules" 7;
    embedded_objects_are_checked "embedded-resource" 5;
    unknown_fields_are_preserved_where_allowed "preserve-unknown" 4;
    unknown_fields_are_pruned "prune-unknown" 3;
    defaults_are_filled_in "default-create" 4;
    nulls_are_dropped_or_kept "null-handling-create" 5;
    fields_are_validated_as_asked "field-validation-create" 5;
    json_patches_work_on_lists "json-patch-arrays" 9;
    malformed_json_patches_are_refused "json-patch-malformed" 9;
    json_patches_replace_what_is_missing "json-patch-replace-missing" 7;
    json_patches_test_for_null "json-patch-test-null" 6;
    merge_patches_are_laid_over "merge-patch" 10;
    names_are_checked "names-invalid" 7;
    labels_and_annotations_are_checked "labels-annotations-invalid" 7;
    owners_are_checked "owner-references-invalid" 6;
    finalizers_are_checked "finalizer-names" 6;
    schemas_must_be_structural "crd-not-structural" 5;
}
