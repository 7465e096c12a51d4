//! `allOf`, `anyOf`, `oneOf` and `not`.

use super::{Checks, Schema};
use crate::meta::field::{Cause, FieldError, Path, quoted};
use serde_json::Value;

/// Validates a value against the junctors of its schema.
pub(super) fn check(value: &Value, checks: &Checks, path: &Path, errors: &mut Vec<FieldError>) {
    let at = quoted(path.as_str());
    if let Some(failures) = none_of(&checks.any_of, value, path) {
        errors.push(unplaced(format!("{at} must validate at least one schema (anyOf)")));
        errors.extend(failures);
    }
    if !checks.one_of.is_empty() {
        let valid = checks.one_of.iter().filter(|branch| holds(branch, value, path)).count();
        if valid != 1 {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                several => format!("Found {several} valid alternatives"),
            };
            errors.push(unplaced(format!(
                "{at} must validate one and only one schema (oneOf). {found}"
            )));
            errors.extend(none_of(&checks.one_of, value, path).unwrap_or_default());
        }
    }
    all_of(value, checks, path, errors);
    if checks.not.as_ref().is_some_and(|branch| holds(branch, value, path)) {
        errors.push(unplaced(format!("{at} must not validate the schema (not)")));
    }
}

fn all_of(value: &Value, checks: &Checks, path: &Path, errors: &mut Vec<FieldError>) {
    let mut valid = 0;
    for branch in &checks.all_of {
        let failures = failures(branch, value, path);
        valid += usize::from(failures.is_empty());
        errors.extend(failures);
    }
    if valid < checks.all_of.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        let at = quoted(path.as_str());
        errors.push(unplaced(format!("{at} must validate all the schemas (allOf){none}")));
    }
}

/// The errors of the first branch, if all branches fail.
fn none_of(branches: &[Schema], value: &Value, path: &Path) -> Option<Vec<FieldError>> {
    let first = branches.first()?;
    if branches.iter().any(|branch| holds(branch, value, path)) {
        return None;
    }
    Some(failures(first, value, path))
}

fn holds(branch: &Schema, value: &Value, path: &Path) -> bool {
    failures(branch, value, path).is_empty()
}

fn failures(branch: &Schema, value: &Value, path: &Path) -> Vec<FieldError> {
    let mut failures = Vec::new();
    super::validate::check(value, None, branch, path, &mut failures);
    failures
}

/// Errors about several schemas have no path.
fn unplaced(detail: String) -> FieldError {
    FieldError::made(Cause::Invalid, &Path::default(), Some("\"\"".to_owned()), detail)
}
