//! The parameters a blueprint declares, and the values a declaration gives them.
//!
//! **Invariants**
//! - A schema that exists is sound: names are unique and free, defaults have their type.
//! - Values that exist satisfy their schema, defaults included: nothing downstream fills in.
//! - Nothing is converted: a number in quotes is a string.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;
use usher_kernel::{coded, words};

use crate::object::offender::shortened;

/// The most parameters one blueprint may declare.
pub const COUNT_MAX: usize = 64;
/// The longest name.
pub const NAME_MAX: usize = 63;
/// The longest string value, in bytes.
pub const STRING_MAX: usize = 4096;
/// Names under which Usher itself writes into `spec.parameters`.
pub const RESERVED: [&str; 2] = ["helmValues", "providerSecret"];

words! {
    /// The type of a parameter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ParameterType {
        /// True or false.
        Boolean = "boolean",
        /// A whole number of 64 bits.
        Integer = "integer",
        /// A text.
        String = "string",
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A text.
    String(String),
}

impl From<ParameterValue> for Value {
    fn from(value: ParameterValue) -> Self {
        match value {
            ParameterValue::Boolean(it) => it.into(),
            ParameterValue::Integer(it) => it.into(),
            ParameterValue::String(it) => it.into(),
        }
    }
}

/// One parameter as a blueprint states it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ParameterType,
    /// Whether a declaration must give it.
    #[serde(default)]
    pub required: bool,
    /// The default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// What a blueprint asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct ParameterSchema {
    parameters: Vec<Parameter>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    #[serde(default)]
    parameters: Vec<Parameter>,
}

coded! {
    /// Why a schema is not sound.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadSchema {
        /// Too many parameters.
        #[error("invalid schema: {0} parameters are more than {COUNT_MAX}")]
        TooMany(usize) = "schema_too_many_parameters",
        /// The name is no name.
        #[error("invalid schema: \"{0}\" is not a parameter name")]
        Name(String) = "schema_parameter_name",
        /// Usher itself writes there.
        #[error("invalid schema: parameter name \"{0}\" is reserved")]
        Reserved(String) = "schema_parameter_reserved",
        /// Two parameters of one name.
        #[error("invalid schema: parameter \"{0}\" is declared twice")]
        Duplicate(String) = "schema_parameter_duplicate",
        /// A default that no request can ever get.
        #[error("invalid schema: parameter \"{0}\" is required and has a default")]
        RequiredWithDefault(String) = "schema_required_with_default",
        /// The default is not of the parameter's type.
        #[error("invalid schema: the default of parameter \"{name}\" is not a valid {kind}")]
        Default {
            /// The offending name.
            name: String,
            /// What it should be.
            kind: ParameterType,
        } = "schema_default_type",
    }
}

/// Why values do not satisfy a schema; every one names the offending parameter.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadValues {
    /// The blueprint does not declare it.
    #[error("parameter \"{0}\" is unknown")]
    Unknown(String),
    /// It is required and missing.
    #[error("parameter \"{0}\" is required")]
    Missing(String),
    /// It has another type.
    #[error("parameter \"{name}\" must be of type {kind}")]
    Type {
        /// The parameter's name.
        name: String,
        /// What it should be.
        kind: ParameterType,
    },
    /// The text is too long.
    #[error("parameter \"{0}\" is longer than {STRING_MAX} bytes")]
    TooLong(String),
    /// The text holds a NUL, which not every store can keep.
    #[error("parameter \"{0}\" contains a NUL")]
    Nul(String),
}

impl BadValues {
    /// The code of the refusal: one for all, the message names the parameter.
    pub const fn code(&self) -> &'static str {
        "parameter_values_invalid"
    }
}

/// Values that satisfy the schema they were materialised with, defaults included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ParameterValues(BTreeMap<String, ParameterValue>);

impl ParameterValues {
    /// The value of one parameter.
    pub fn get(&self, name: &str) -> Option<&ParameterValue> {
        self.0.get(name)
    }

    /// Every name and value, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParameterValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The values as one JSON object.
    pub fn to_map(&self) -> Map<String, Value> {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect()
    }
}

impl ParameterSchema {
    /// A schema from stated parameters, if they are sound.
    pub fn new(parameters: Vec<Parameter>) -> Result<Self, BadSchema> {
        if parameters.len() > COUNT_MAX {
            return Err(BadSchema::TooMany(parameters.len()));
        }
        for (index, parameter) in parameters.iter().enumerate() {
            sound(parameter)?;
            if parameters.iter().take(index).any(|it| it.name == parameter.name) {
                return Err(BadSchema::Duplicate(parameter.name.clone()));
            }
        }
        Ok(Self { parameters })
    }

    /// The parameters, in declaration order.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Checks what a declaration gives and fills in the defaults.
    pub fn materialise(&self, given: &Map<String, Value>) -> Result<ParameterValues, BadValues> {
        let mut names: Vec<&String> = given.keys().collect();
        names.sort();
        if let Some(name) = names.into_iter().find(|it| !self.asks_for(it)) {
            return Err(BadValues::Unknown(shortened(name)));
        }
        let mut values = BTreeMap::new();
        for parameter in &self.parameters {
            let name = &parameter.name;
            match given.get(name).or(parameter.default.as_ref()) {
                Some(value) => {
                    values.insert(name.clone(), typed(parameter, value)?);
                }
                None if parameter.required => {
                    return Err(BadValues::Missing(name.clone()));
                }
                None => {}
            }
        }
        Ok(ParameterValues(values))
    }

    fn asks_for(&self, name: &str) -> bool {
        self.parameters.iter().any(|it| it.name == name)
    }
}

impl TryFrom<Unchecked> for ParameterSchema {
    type Error = BadSchema;

    fn try_from(it: Unchecked) -> Result<Self, BadSchema> {
        Self::new(it.parameters)
    }
}

fn sound(parameter: &Parameter) -> Result<(), BadSchema> {
    let name = &parameter.name;
    if !is_name(name) {
        return Err(BadSchema::Name(shortened(name)));
    }
    if RESERVED.contains(&name.as_str()) {
        return Err(BadSchema::Reserved(name.clone()));
    }
    let Some(default) = &parameter.default else { return Ok(()) };
    if parameter.required {
        return Err(BadSchema::RequiredWithDefault(name.clone()));
    }
    match typed(parameter, default) {
        Ok(_) => Ok(()),
        Err(_) => Err(BadSchema::Default { name: name.clone(), kind: parameter.kind }),
    }
}

/// A field name: a letter, then letters, digits and underscores.
fn is_name(text: &str) -> bool {
    text.len() <= NAME_MAX
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn typed(parameter: &Parameter, value: &Value) -> Result<ParameterValue, BadValues> {
    let name = || parameter.name.clone();
    let read = match parameter.kind {
        ParameterType::Boolean => value.as_bool().map(ParameterValue::Boolean),
        ParameterType::Integer => value.as_i64().map(ParameterValue::Integer),
        ParameterType::String => value.as_str().map(|it| ParameterValue::String(it.to_owned())),
    };
    let read = read.ok_or_else(|| BadValues::Type { name: name(), kind: parameter.kind })?;
    if let ParameterValue::String(text) = &read {
        if text.len() > STRING_MAX {
            return Err(BadValues::TooLong(name()));
        }
        if text.contains('\0') {
            return Err(BadValues::Nul(name()));
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parameter(name: &str, kind: ParameterType) -> Parameter {
        Parameter { name: name.into(), kind, required: false, default: None }
    }

    fn schema() -> ParameterSchema {
        serde_json::from_value(json!({ "parameters": [
            { "name": "region", "type": "string", "required": true },
            { "name": "nodeCount", "type": "integer", "default": 3 },
            { "name": "monitoring", "type": "boolean", "default": false },
            { "name": "zone", "type": "string" },
        ]}))
        .unwrap()
    }

    fn materialise(given: &Value) -> Result<Value, BadValues> {
        let values = schema().materialise(given.as_object().unwrap())?;
        Ok(Value::Object(values.to_map()))
    }

    // Requirement: X-2
    #[test]
    fn defaults_are_filled_in_and_given_values_win() {
        assert_eq!(
            materialise(&json!({ "region": "eu" })),
            Ok(json!({ "region": "eu", "nodeCount": 3, "monitoring": false }))
        );
        let all = json!({ "region": "eu", "nodeCount": -1, "monitoring": true, "zone": "" });
        assert_eq!(materialise(&all), Ok(all));
    }

    // Requirement: X-1
    #[test]
    fn a_refusal_names_the_offending_parameter() {
        let name = |it: &str| it.to_owned();
        let kind = |it: &str, kind| BadValues::Type { name: it.into(), kind };
        let cases = [
            (json!({}), BadValues::Missing(name("region"))),
            (json!({ "region": "eu", "Zone": "a" }), BadValues::Unknown(name("Zone"))),
            (json!({ "b": 1, "a": 1 }), BadValues::Unknown(name("a"))),
            (json!({ "region": 1 }), kind("region", ParameterType::String)),
            (json!({ "region": null }), kind("region", ParameterType::String)),
            (json!({ "region": "e", "nodeCount": "3" }), kind("nodeCount", ParameterType::Integer)),
            (json!({ "region": "e", "nodeCount": 3.0 }), kind("nodeCount", ParameterType::Integer)),
            (
                json!({ "region": "e", "nodeCount": 9_223_372_036_854_775_808_u64 }),
                kind("nodeCount", ParameterType::Integer),
            ),
            (
                json!({ "region": "e", "monitoring": "true" }),
                kind("monitoring", ParameterType::Boolean),
            ),
            (json!({ "region": "e\0" }), BadValues::Nul(name("region"))),
            (json!({ "region": "e".repeat(STRING_MAX + 1) }), BadValues::TooLong(name("region"))),
        ];
        for (given, refusal) in cases {
            assert_eq!(materialise(&given), Err(refusal.clone()));
            assert_eq!(refusal.code(), "parameter_values_invalid");
        }
        let missing = materialise(&json!({})).unwrap_err();
        assert_eq!(missing.to_string(), "parameter \"region\" is required");
    }

    // Requirement: X-4
    #[test]
    fn the_longest_string_and_the_largest_integers_are_taken() {
        for count in [i64::MIN, i64::MAX] {
            let given = json!({ "region": "e".repeat(STRING_MAX), "nodeCount": count });
            let values = schema().materialise(given.as_object().unwrap()).unwrap();
            assert_eq!(values.get("nodeCount"), Some(&ParameterValue::Integer(count)));
        }
    }

    // Requirement: X-3
    #[test]
    fn an_unsound_schema_cannot_be_made() {
        let string = |name: &str| parameter(name, ParameterType::String);
        let with_default =
            |kind, default| Parameter { default: Some(default), ..parameter("p", kind) };
        let bad_default = |kind| BadSchema::Default { name: "p".into(), kind };
        let cases = [
            (vec![string("")], BadSchema::Name(String::new())),
            (vec![string("1a")], BadSchema::Name("1a".into())),
            (vec![string("a.b")], BadSchema::Name("a.b".into())),
            (vec![string(&"n".repeat(64))], BadSchema::Name("n".repeat(64))),
            (vec![string("helmValues")], BadSchema::Reserved("helmValues".into())),
            (vec![string("providerSecret")], BadSchema::Reserved("providerSecret".into())),
            (vec![string("a"), string("a")], BadSchema::Duplicate("a".into())),
            (
                vec![Parameter {
                    required: true,
                    ..with_default(ParameterType::Boolean, json!(true))
                }],
                BadSchema::RequiredWithDefault("p".into()),
            ),
            (
                vec![with_default(ParameterType::Integer, json!("3"))],
                bad_default(ParameterType::Integer),
            ),
            (
                vec![with_default(ParameterType::String, json!("a\0"))],
                bad_default(ParameterType::String),
            ),
        ];
        for (parameters, refusal) in cases {
            assert_eq!(ParameterSchema::new(parameters), Err(refusal));
        }
    }

    // Requirement: X-4
    #[test]
    fn sixty_four_parameters_are_allowed_and_one_more_is_not() {
        let many = |count: usize| {
            (0..count).map(|n| parameter(&format!("p{n}"), ParameterType::Boolean)).collect()
        };
        assert_eq!(ParameterSchema::new(many(64)).unwrap().parameters().len(), 64);
        assert_eq!(ParameterSchema::new(many(65)), Err(BadSchema::TooMany(65)));
    }

    // Requirement: X-4
    #[test]
    fn names_end_at_sixty_three() {
        let longest = parameter(&"n".repeat(63), ParameterType::String);
        assert!(ParameterSchema::new(vec![longest]).is_ok());
        assert!(ParameterSchema::new(vec![parameter("a_B9", ParameterType::String)]).is_ok());
    }

    // Requirement: X-3
    #[test]
    fn every_refusal_of_a_schema_has_its_code() {
        let name = String::new;
        let codes = [
            BadSchema::TooMany(65).code(),
            BadSchema::Name(name()).code(),
            BadSchema::Reserved(name()).code(),
            BadSchema::Duplicate(name()).code(),
            BadSchema::RequiredWithDefault(name()).code(),
            BadSchema::Default { name: name(), kind: ParameterType::String }.code(),
        ];
        assert_eq!(
            codes,
            [
                "schema_too_many_parameters",
                "schema_parameter_name",
                "schema_parameter_reserved",
                "schema_parameter_duplicate",
                "schema_required_with_default",
                "schema_default_type",
            ]
        );
    }

    // Requirement: X-5
    #[test]
    fn a_schema_and_its_values_survive_storage() {
        let text = serde_json::to_string(&schema()).unwrap();
        assert_eq!(serde_json::from_str::<ParameterSchema>(&text).unwrap(), schema());
        let given = json!({ "region": "3", "monitoring": true });
        let values = schema().materialise(given.as_object().unwrap()).unwrap();
        let text = serde_json::to_string(&values).unwrap();
        assert_eq!(text, r#"{"monitoring":true,"nodeCount":3,"region":"3"}"#);
        assert_eq!(serde_json::from_str::<ParameterValues>(&text).unwrap(), values);
        let names: Vec<&str> = values.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["monitoring", "nodeCount", "region"]);
    }

    #[test]
    fn types_have_words() {
        assert_eq!(ParameterType::ALL.map(ParameterType::as_str), ["boolean", "integer", "string"]);
        assert!(
            serde_json::from_value::<ParameterSchema>(
                json!({ "parameters": [{ "name": "a", "type": "number" }] })
            )
            .is_err()
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 8, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z]{0,12}", inner, 0..4)
                    .prop_map(|it| it.into_iter().collect()),
            ]
        })
    }

    proptest! {
        // Requirement: X-1
        #[test]
        fn garbage_is_refused_or_taken_as_it_is(
            region in any_json(), count in any_json(), other in any_json(),
        ) {
            let given = json!({ "region": region, "nodeCount": count });
            if let Ok(values) = schema().materialise(given.as_object().unwrap()) {
                prop_assert_eq!(&values.to_map()["region"], &region);
                prop_assert_eq!(&values.to_map()["nodeCount"], &count);
            }
            if let Some(given) = other.as_object() {
                prop_assert!(schema().materialise(given).is_err());
            }
            let _ = serde_json::from_value::<ParameterSchema>(other);
        }
    }
}
