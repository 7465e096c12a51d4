//! What the `scale` subresource demands of the fields it stands for.

use serde_json::{Value, json};

use crate::apply::typed::{go_text, go_type};
use crate::kinds::custom::Scale;
use crate::meta::field::{FieldError, Path};

/// The errors of an object with a scale; of the status alone in a write of the status.
pub(super) fn validate(scale: &Scale, object: &Value, status_only: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !status_only {
        errors.extend(replicas(object, &scale.spec));
    }
    errors.extend(replicas(object, &scale.status));
    errors.extend(scale.selector.as_deref().and_then(|path| selector(object, path)));
    errors
}

fn replicas(object: &Value, path: &str) -> Option<FieldError> {
    let at = Path::new(path);
    let found = match find(object, path) {
        Ok(found) => found?,
        Err(why) => return Some(FieldError::invalid(&at, &json!(0), why)),
    };
    let Some(count) = found.as_i64() else {
        return Some(FieldError::invalid(&at, &json!(0), of_type(path, found, "int64")));
    };
    if count < 0 {
        return Some(FieldError::invalid(&at, found, "should be a non-negative integer"));
    }
    if count > i64::from(i32::MAX) {
        let why = format!("should be less than or equal to {}", i32::MAX);
        return Some(FieldError::invalid(&at, found, why));
    }
    None
}

fn selector(object: &Value, path: &str) -> Option<FieldError> {
    let why = match find(object, path) {
        Ok(found) => of_type(path, found.filter(|found| !found.is_string())?, "string"),
        Err(why) => why,
    };
    Some(FieldError::invalid_text(&Path::new(path), "", why))
}

/// The value at a path of names; an error if something on the way is no map.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut place = object;
    let mut way = String::new();
    for name in path.split('.').filter(|name| !name.is_empty()) {
        way.push('.');
        way.push_str(name);
        place = match place {
            Value::Object(fields) => match fields.get(name) {
                Some(child) => child,
                None => return Ok(None),
            },
            Value::Null => return Ok(None),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return Err(of_type(&way, place, "map[string]interface{}"));
            }
        };
    }
    Ok(Some(place))
}

fn of_type(path: &str, found: &Value, expected: &str) -> String {
    let kind = go_type(found);
    format!("{path} accessor error: {} is of the type {kind}, expected {expected}", go_text(found))
}
