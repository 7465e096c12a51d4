//! Who wrote which field.

use serde_json::Value;

use crate::status::Refusal;
use crate::verbs::Ask;

/// Records the writer of a new object's fields.
pub(crate) fn on_create(_ask: &Ask<'_>, _object: &mut Value) -> Result<(), Refusal> {
    Ok(())
}

/// Records the writer of changed fields.
pub(crate) fn on_update(_ask: &Ask<'_>, _old: &Value, _next: &mut Value) -> Result<(), Refusal> {
    Ok(())
}

/// Lays an applied configuration over an object.
pub(crate) fn apply(
    _ask: &mut Ask<'_>,
    _current: Option<&Value>,
    config: &Value,
) -> Result<Value, Refusal> {
    Ok(config.clone())
}

/// Whether two images differ in nothing but the times of their managed fields.
pub(crate) fn same_but_times(old: &Value, new: &Value) -> bool {
    let timeless = |value: &Value| {
        let mut value = value.clone();
        let managed = value.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in managed.into_iter().flatten() {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        value
    };
    old == new || timeless(old) == timeless(new)
}
