//! Validation, with the messages of Kubernetes.

use super::{Bound, Counterparts, JsonType, Schema, format, junctor, lists, metadata, rules};
use crate::meta::field::{Cause, FieldError, Path, quoted, shown};
use serde_json::{Map, Number, Value};

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; \
    correct the existing errors to complete validation";
const STATUS: &str = "status";
/// How the root is called.
const NO_FIELD: &str = "<nil>";

impl Schema {
    /// Validates an object without its metadata; on an update, values that are unchanged since
    /// `old` are tolerated.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.validate_beside((object, old), Vec::new(), &mut errors);
        errors
    }

    /// Validates an object that has other errors, those before and those after the schema's: with
    /// some of them no rule is evaluated.
    pub(crate) fn validate_beside(
        &self,
        (object, old): (&Value, Option<&Value>),
        after: Vec<FieldError>,
        errors: &mut Vec<FieldError>,
    ) {
        check(object, old, self, &Path::default(), errors);
        errors.extend(after);
        self.check_relations(object, old, errors);
    }

    /// Validates the status, and the rules of the whole object. As in Kubernetes, messages call
    /// fields as the status does.
    pub(crate) fn validate_status(
        &self,
        (object, old): (&Value, &Value),
        after: Vec<FieldError>,
        errors: &mut Vec<FieldError>,
    ) {
        let mut own = Vec::new();
        if let (Some(status), Some(known)) = (object.get(STATUS), self.field(STATUS)) {
            check(status, old.get(STATUS), known, &Path::default(), &mut own);
        }
        for error in &mut own {
            if error.field == NO_FIELD {
                STATUS.clone_into(&mut error.field);
                if error.detail.starts_with("in body") {
                    error.detail.insert(0, ' ');
                }
            } else {
                error.field = format!("{STATUS}.{}", error.field);
            }
        }
        errors.extend(own);
        errors.extend(after);
        self.check_relations(object, Some(old), errors);
    }

    /// Checks embedded objects, lists and rules, which see more than one value.
    fn check_relations(&self, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        let root = Path::default();
        metadata::check_embedded(object, self, &root, true, errors);
        lists::doubled(object, old, self, &root, errors);
        if !self.has_rules {
            return;
        }
        if errors.iter().any(|error| blocks(error.cause)) {
            errors.push(FieldError::invalid(&root, &Value::Null, UNCHECKED));
        } else {
            rules::evaluate(object, old, self, errors);
        }
    }
}

/// Checks a value against its schema; a value that equals `old` was accepted before.
pub(super) fn check(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if old == Some(value) {
        return;
    }
    check_type(value, schema, path, errors);
    if value.is_null() {
        return;
    }
    junctor::check(value, &schema.checks, path, errors);
    match value {
        Value::String(text) => check_text(text, schema, path, errors),
        Value::Number(number) => check_number(number, schema, path, errors),
        Value::Array(items) => {
            let before = old.and_then(Value::as_array).map(Vec::as_slice);
            check_items((items, before), schema, path, errors);
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => {}
    }
    check_choice(value, schema, path, errors);
    if let Value::Object(fields) = value {
        check_fields((fields, old), schema, path, errors);
    }
}

fn blocks(cause: Cause) -> bool {
    match cause {
        Cause::Required
        | Cause::NotSupported
        | Cause::TooLong
        | Cause::TooMany
        | Cause::TypeInvalid => true,
        Cause::Invalid | Cause::Forbidden | Cause::Duplicate => false,
    }
}

/// The type of a value and its format.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Number(number) if number.is_f64() => ("number", "double"),
        Value::Number(_) => ("integer", "int64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

fn check_type(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let allowed: Vec<&str> = match schema.kind {
        Some(kind) => vec![kind.name()],
        None if schema.int_or_string => vec!["integer", "string"],
        None => return,
    };
    if value.is_null() && schema.nullable {
        return;
    }
    let (found, found_format) = type_of(value);
    let fits = allowed.contains(&found) || (found == "integer" && allowed.contains(&"number"));
    if fits {
        return;
    }
    let (expected, found) = match &schema.checks.format {
        Some(name) if matches!(value, Value::Number(_)) => (name.clone(), found_format),
        Some(_) | None => (allowed.join(","), found),
    };
    errors.push(mistyped(path, &expected, found));
}

fn mistyped(path: &Path, expected: &str, found: &str) -> FieldError {
    let detail = format!("{} must be of type {expected}: {}", in_body(path), quoted(found));
    FieldError::type_invalid(path, found, detail)
}

fn in_body(path: &Path) -> String {
    if path.as_str().is_empty() { "in body".to_owned() } else { format!("{path} in body") }
}

fn check_text(text: &str, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let checks = &schema.checks;
    let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    let refuse = |detail: String| FieldError::invalid_text(path, text, detail);
    if let Some(most) = checks.length.1.filter(|most| length > *most) {
        errors.push(FieldError::too_long(path, usize::try_from(most).unwrap_or(usize::MAX)));
    } else if let Some(least) = checks.length.0.filter(|least| length < *least) {
        errors.push(refuse(format!("{} should be at least {least} chars long", in_body(path))));
    } else if let Some((pattern, compiled)) = &checks.pattern
        && !compiled.as_ref().is_some_and(|compiled| compiled.is_match(text))
    {
        errors.push(refuse(format!("{} should match '{pattern}'", in_body(path))));
    }
    if let Some(name) = &checks.format
        && !format::holds(name, text)
    {
        let detail = format!("{} must be of type {name}: {}", in_body(path), quoted(text));
        errors.push(FieldError::type_invalid(path, text, detail));
    }
}

fn check_number(number: &Number, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(error) = out_of_range(number, schema, path) {
        errors.push(error);
    }
    let Some(value) = number.as_f64() else { return };
    let checks = &schema.checks;
    let mut refuse = |detail: String| {
        errors.push(FieldError::made(
            Cause::Invalid,
            path,
            Some(number.to_string()),
            format!("{} should be {detail}", in_body(path)),
        ));
    };
    if let Some(step) = checks.multiple_of {
        let quotient = value / step;
        if quotient.fract() != 0.0 {
            refuse(format!("a multiple of {step}"));
        }
    }
    if let Some(Bound { value: most, exclusive }) = checks.maximum {
        match exclusive {
            true if value >= most => refuse(format!("less than {most}")),
            false if value > most => refuse(format!("less than or equal to {most}")),
            true | false => {}
        }
    }
    if let Some(Bound { value: least, exclusive }) = checks.minimum {
        match exclusive {
            true if value <= least => refuse(format!("greater than {least}")),
            false if value < least => refuse(format!("greater than or equal to {least}")),
            true | false => {}
        }
    }
}

fn out_of_range(number: &Number, schema: &Schema, path: &Path) -> Option<FieldError> {
    if schema.kind != Some(JsonType::Integer) {
        return None;
    }
    let whole = number.as_i64();
    let (fits, named) = match schema.checks.format.as_deref() {
        Some("int32") => {
            (whole.is_some_and(|value| i32::try_from(value).is_ok()), "with format int32")
        }
        Some("int64") => (whole.is_some(), "with format int64"),
        Some(_) | None => (whole.is_some(), "(default format)"),
    };
    if fits {
        return None;
    }
    let detail = format!("Checked value must be of type integer {named} in {path}");
    Some(FieldError::made(Cause::Invalid, &Path::default(), Some("\"\"".to_owned()), detail))
}

fn check_items(
    (items, old): (&[Value], Option<&[Value]>),
    schema: &Schema,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if let Some(known) = &schema.items {
        let others = Counterparts::new(&schema.list, old);
        for (index, item) in items.iter().enumerate() {
            let before = others.of(item);
            check(item, before, known, &path.index(index), errors);
        }
    }
    let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(least) = schema.checks.items.0.filter(|least| count < *least) {
        let detail = format!("{} should have at least {least} items", in_body(path));
        errors.push(FieldError::invalid(path, &Value::from(count), detail));
    }
    if let Some(most) = schema.checks.items.1.filter(|most| count > *most) {
        errors.push(FieldError::too_many(path, items.len(), most));
    }
}

fn check_choice(value: &Value, schema: &Schema, path: &Path, errors: &mut Vec<FieldError>) {
    let choices = &schema.checks.choices;
    if choices.is_empty() || choices.contains(value) {
        return;
    }
    let names: Vec<String> = choices
        .iter()
        .map(|choice| choice.as_str().map_or_else(|| shown(choice), str::to_owned))
        .collect();
    errors.push(FieldError::not_supported(path, value, &names));
}

fn check_fields(
    (fields, old): (&Map<String, Value>, Option<&Value>),
    schema: &Schema,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let checks = &schema.checks;
    let count = u64::try_from(fields.len()).unwrap_or(u64::MAX);
    if let Some(least) = checks.properties.0.filter(|least| count < *least) {
        let detail = format!("{} should have at least {least} properties", in_body(path));
        errors.push(FieldError::invalid(path, &Value::from(count), detail));
        return;
    }
    if let Some(most) = checks.properties.1.filter(|most| count > *most) {
        errors.push(FieldError::too_many(path, fields.len(), most));
        return;
    }
    for (name, child) in fields {
        if let Some(known) = schema.field(name) {
            let before = old.and_then(|old| old.get(name));
            check(child, before, known, &path.child(name), errors);
        }
    }
    for name in &checks.required {
        if !fields.contains_key(name) {
            errors.push(FieldError::required(&path.child(name), ""));
        }
    }
}
