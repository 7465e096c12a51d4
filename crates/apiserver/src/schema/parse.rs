//! The schema parser.

use super::{Additional, Bound, Checks, DEPTH_MAX, JsonType, ListType, Schema, Unreadable, rules};
use serde_json::Value;

impl Schema {
    /// Compiles the schema of a version. [`definition`](super::definition) checks whether it is
    /// structural; this only refuses what cannot be compiled.
    pub fn parse(schema: &Value) -> Result<Self, Unreadable> {
        let mut root = node(schema, "", 0)?;
        root.embedded = true;
        root.rules = rules::Rules::compile(schema, true);
        root.has_rules |= root.rules.is_some();
        Ok(root)
    }

    /// Whether this node or one below has CEL rules.
    pub fn has_rules(&self) -> bool {
        self.has_rules
    }
}

fn node(schema: &Value, at: &str, depth: usize) -> Result<Schema, Unreadable> {
    let refuse = |why: &str| Err(Unreadable { at: at.to_owned(), why: why.to_owned() });
    if depth > DEPTH_MAX {
        return refuse("it is nested too deeply");
    }
    if !schema.is_object() {
        return refuse("it is not an object");
    }
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    let kind = match schema.get("type").and_then(Value::as_str) {
        None | Some("") => None,
        Some(name) => match JsonType::of(name) {
            Some(kind) => Some(kind),
            None => return refuse("its type is unknown"),
        },
    };
    let mut made = Schema {
        kind,
        nullable: flag("nullable"),
        default: schema.get("default").filter(|value| !value.is_null()).cloned(),
        preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        embedded: flag("x-kubernetes-embedded-resource"),
        list: list_type(schema),
        atomic_map: text(schema, "x-kubernetes-map-type") == Some("atomic"),
        checks: checks(schema, at, depth)?,
        ..Schema::default()
    };
    children(&mut made, schema, at, depth)?;
    if depth > 0 {
        made.rules = rules::Rules::compile(schema, false);
        made.has_rules |= made.rules.is_some();
    }
    Ok(made)
}

fn children(made: &mut Schema, schema: &Value, at: &str, depth: usize) -> Result<(), Unreadable> {
    for (name, child) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let child = node(child, &format!("{at}.properties[{name}]"), depth + 1)?;
        made.has_rules |= child.has_rules;
        made.properties.insert(name.clone(), child);
    }
    made.additional = match schema.get("additionalProperties") {
        None | Some(Value::Null | Value::Bool(false)) => Additional::None,
        Some(Value::Bool(true)) => Additional::Any,
        Some(child) => {
            let child = node(child, &format!("{at}.additionalProperties"), depth + 1)?;
            made.has_rules |= child.has_rules;
            Additional::Schema(Box::new(child))
        }
    };
    if let Some(items) = schema.get("items").filter(|items| !items.is_null()) {
        let child = node(items, &format!("{at}.items"), depth + 1)?;
        made.has_rules |= child.has_rules;
        made.items = Some(Box::new(child));
    }
    Ok(())
}

fn checks(schema: &Value, at: &str, depth: usize) -> Result<Checks, Unreadable> {
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let bound = |value: &str, exclusive: &str| {
        let exclusive = schema.get(exclusive).and_then(Value::as_bool).unwrap_or(false);
        number(value).map(|value| Bound { value, exclusive })
    };
    let branches = |name: &str| -> Result<Vec<Schema>, Unreadable> {
        let list = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        list.enumerate()
            .map(|(index, child)| node(child, &format!("{at}.{name}[{index}]"), depth + 1))
            .collect()
    };
    let not = match schema.get("not").filter(|child| !child.is_null()) {
        Some(child) => Some(Box::new(node(child, &format!("{at}.not"), depth + 1)?)),
        None => None,
    };
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    Ok(Checks {
        format: text(schema, "format").filter(|name| !name.is_empty()).map(str::to_owned),
        pattern: text(schema, "pattern")
            .filter(|pattern| !pattern.is_empty())
            .map(|pattern| (pattern.to_owned(), super::pattern(pattern).ok())),
        choices: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        length: (count("minLength"), count("maxLength")),
        items: (count("minItems"), count("maxItems")),
        properties: (count("minProperties"), count("maxProperties")),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
        all_of: branches("allOf")?,
        any_of: branches("anyOf")?,
        one_of: branches("oneOf")?,
        not,
    })
}

fn list_type(schema: &Value) -> ListType {
    match text(schema, "x-kubernetes-list-type") {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            ListType::Map(keys.map(str::to_owned).collect())
        }
        Some(_) | None => ListType::Atomic,
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}
