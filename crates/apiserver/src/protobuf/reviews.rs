//! Field numbers and names of the questions.

use super::messages::{Field, Form, METADATA, TEXTS, field};

/// The message of a kind of question.
pub(super) fn of(kind: &str) -> Option<&'static [Field]> {
    match kind {
        "SelfSubjectReview" => Some(&SELF_SUBJECT),
        "SelfSubjectAccessReview" => Some(&SELF_SUBJECT_ACCESS),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => Some(&SUBJECT_ACCESS),
        "SelfSubjectRulesReview" => Some(&SELF_SUBJECT_RULES),
        "TokenReview" => Some(&TOKEN_REVIEW),
        "TokenRequest" => Some(&TOKEN_REQUEST),
        _ => None,
    }
}

/// A status that clients leave empty.
const STATUS: Form = Form::Ignored;
const MAP_OF_TEXTS: Form = Form::Map(&Form::Items);

static SELF_SUBJECT: [Field; 2] = [METADATA, field(2, "status", STATUS)];
static SELF_SUBJECT_ACCESS: [Field; 3] = [
    METADATA,
    field(2, "spec", Form::Message(&SELF_SUBJECT_ACCESS_SPEC)),
    field(3, "status", STATUS),
];
static SELF_SUBJECT_ACCESS_SPEC: [Field; 2] = [
    field(1, "resourceAttributes", Form::Message(&RESOURCE)),
    field(2, "nonResourceAttributes", Form::Message(&NON_RESOURCE)),
];
static SUBJECT_ACCESS: [Field; 3] =
    [METADATA, field(2, "spec", Form::Message(&SUBJECT_ACCESS_SPEC)), field(3, "status", STATUS)];
static SUBJECT_ACCESS_SPEC: [Field; 6] = [
    field(1, "resourceAttributes", Form::Message(&RESOURCE)),
    field(2, "nonResourceAttributes", Form::Message(&NON_RESOURCE)),
    field(3, "user", Form::Text),
    field(4, "groups", TEXTS),
    field(5, "extra", MAP_OF_TEXTS),
    field(6, "uid", Form::Text),
];
static RESOURCE: [Field; 9] = [
    field(1, "namespace", Form::Text),
    field(2, "verb", Form::Text),
    field(3, "group", Form::Text),
    field(4, "version", Form::Text),
    field(5, "resource", Form::Text),
    field(6, "subresource", Form::Text),
    field(7, "name", Form::Text),
    field(8, "fieldSelector", Form::Message(&SELECTOR)),
    field(9, "labelSelector", Form::Message(&SELECTOR)),
];
static SELECTOR: [Field; 2] = [
    field(1, "rawSelector", Form::Text),
    field(2, "requirements", Form::List(&Form::Message(&REQUIREMENT))),
];
static REQUIREMENT: [Field; 3] =
    [field(1, "key", Form::Text), field(2, "operator", Form::Text), field(3, "values", TEXTS)];
static NON_RESOURCE: [Field; 2] = [field(1, "path", Form::Text), field(2, "verb", Form::Text)];
static SELF_SUBJECT_RULES: [Field; 3] = [
    METADATA,
    field(2, "spec", Form::Message(&SELF_SUBJECT_RULES_SPEC)),
    field(3, "status", STATUS),
];
static SELF_SUBJECT_RULES_SPEC: [Field; 1] = [field(1, "namespace", Form::Text)];
static TOKEN_REVIEW: [Field; 3] =
    [METADATA, field(2, "spec", Form::Message(&TOKEN_REVIEW_SPEC)), field(3, "status", STATUS)];
static TOKEN_REVIEW_SPEC: [Field; 2] =
    [field(1, "token", Form::Text), field(2, "audiences", TEXTS)];
static TOKEN_REQUEST: [Field; 3] =
    [METADATA, field(2, "spec", Form::Message(&TOKEN_REQUEST_SPEC)), field(3, "status", STATUS)];
static TOKEN_REQUEST_SPEC: [Field; 3] = [
    field(1, "audiences", TEXTS),
    field(3, "boundObjectRef", Form::Message(&BOUND)),
    field(4, "expirationSeconds", Form::GivenNumber),
];
static BOUND: [Field; 4] = [
    field(1, "kind", Form::Text),
    field(2, "apiVersion", Form::Text),
    field(3, "name", Form::Text),
    field(4, "uid", Form::Text),
];
