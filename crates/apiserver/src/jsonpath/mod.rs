//! JSONPath.

use serde_json::Value;

/// What a simple path finds.
pub fn find<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    value.pointer(&path.replace('.', "/")).into_iter().collect()
}

/// What was found, as text.
pub fn print(found: &[&Value]) -> String {
    let texts: Vec<String> = found
        .iter()
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    texts.join(" ")
}
