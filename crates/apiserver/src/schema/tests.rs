use super::decode::{decode, normalise};
use super::default::{drop_nulls, fill};
use super::metadata::normalize;
use super::{Schema, definition, format, prune};
use crate::arbitrary;
use crate::meta::field::{Path, joined};
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(schema: &Value) -> Schema {
    assert_eq!(definition::check(schema, &Path::new("s")), []);
    Schema::parse(schema).unwrap()
}

fn of_spec(spec: &Value) -> Schema {
    read(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn errors_of(schema: &Schema, spec: &Value, old: Option<&Value>) -> String {
    let whole = |spec: &Value| json!({"spec": spec});
    let old = old.map(whole);
    let errors = schema.validate(&whole(spec), old.as_ref());
    if errors.is_empty() { String::new() } else { joined(&errors) }
}

#[test]
fn formats_accept_valid_strings() {
    let rows = [
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-02-28T01:02:03Z", "2026-02-28"),
        ("date-time", "2026-02-28T01:02:03.5+02:00", "yesterday"),
        ("duration", "1h30m", "1 fortnight"),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("mac", "01:23:45:67:89:ab", "01:23:45"),
        ("email", "a@b.example", "a.b.example"),
        ("uri", "https://a.example/b", "a b"),
        ("hostname", "a.example", "-a.example"),
        ("uuid", "0b7bd4b5-24e5-4f08-96d6-7a9e2a1f36f3", "0b7bd4b5"),
        ("uuid4", "0b7bd4b5-24e5-4f08-96d6-7a9e2a1f36f3", "0b7bd4b5-24e5-1f08-96d6-7a9e2a1f36f3"),
        ("byte", "aGk=", "a?"),
        ("hexcolor", "#ffeedd", "#ff"),
        ("rgbcolor", "rgb(1,2,3)", "rgb(1,2)"),
        ("isbn10", "0-306-40615-2", "0-306-40615-3"),
        ("isbn13", "978-0-306-40615-7", "978-0-306-40615-8"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "111-22-3333", "11-22-3333"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("k8s-short-name", "a-b", "A"),
    ];
    for (name, good, bad) in rows {
        assert!(format::holds(name, good), "{name} {good}");
        assert!(!format::holds(name, bad), "{name} {bad}");
    }
    assert!(format::holds("no-such-format", "anything"));
}

#[test]
fn format_and_range_errors_are_reported() {
    let schema = of_spec(&json!({"type": "object", "properties": {
        "ip": {"type": "string", "format": "ipv4"}, "n": {"type": "integer", "format": "int32"},
    }}));
    assert_eq!(
        errors_of(&schema, &json!({"ip": "x"}), None),
        "spec.ip: Invalid value: \"x\": spec.ip in body must be of type ipv4: \"x\""
    );
    assert_eq!(
        errors_of(&schema, &json!({"n": 3_000_000_000_i64}), None),
        "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in \
         spec.n"
    );
}

#[test]
fn junctor_errors_are_reported() {
    let either = json!([{"required": ["a"]}, {"required": ["b"]}]);
    let object = |junctor: &str| {
        of_spec(&json!({"type": "object", junctor: either,
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}))
    };
    let (none, both) = (json!({}), json!({"a": "1", "b": "2"}));
    let any = object("anyOf");
    assert_eq!(
        errors_of(&any, &none, None),
        "[<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf), \
         spec.a: Required value]"
    );
    assert_eq!(errors_of(&any, &both, None), "");
    let one = object("oneOf");
    assert_eq!(
        errors_of(&one, &both, None),
        "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). \
         Found 2 valid alternatives"
    );
    assert_eq!(errors_of(&one, &json!({"a": "1"}), None), "");
    let all = object("allOf");
    assert_eq!(
        errors_of(&all, &json!({"a": "1"}), None),
        "[spec.b: Required value, <nil>: Invalid value: \"\": \"spec\" must validate all the \
         schemas (allOf)]"
    );
    let not = of_spec(&json!({"type": "object", "not": {"required": ["a"]},
        "properties": {"a": {"type": "string"}}}));
    assert_eq!(
        errors_of(&not, &json!({"a": "1"}), None),
        "<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)"
    );
}

#[test]
fn unchanged_values_are_tolerated() {
    let schema = of_spec(&json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 2}, "b": {"type": "string"},
        "list": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1}}}},
    }}));
    let old = json!({"a": "long", "list": [{"k": "x", "v": 9}]});
    let other = json!({"a": "long", "b": "new", "list": [{"k": "y"}, {"k": "x", "v": 9}]});
    assert_eq!(errors_of(&schema, &other, Some(&old)), "");
    let worse = json!({"a": "longer", "list": [{"k": "x", "v": 8}]});
    assert!(errors_of(&schema, &worse, Some(&old)).contains("spec.a: Too long"));
    assert!(errors_of(&schema, &worse, Some(&old)).contains("spec.list[0].v: Invalid value: 8"));
}

// Requirement: AS-8
#[test]
fn rules_see_old_items_by_their_key() {
    let schema = of_spec(&json!({"type": "object", "properties": {
        "list": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "grows"}]}},
    }}));
    let old = json!({"list": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]});
    let turned = json!({"list": [{"k": "b", "v": 1}, {"k": "a", "v": 5}]});
    assert_eq!(errors_of(&schema, &turned, Some(&old)), "");
    let shrunk = json!({"list": [{"k": "b", "v": 0}, {"k": "a", "v": 5}]});
    assert_eq!(errors_of(&schema, &shrunk, Some(&old)), "spec.list[0]: Invalid value: grows");
    assert_eq!(errors_of(&schema, &shrunk, None), "");
}

// Requirement: AS-8
#[test]
fn a_root_rule_sees_the_name_and_no_labels() {
    let schema = read(&json!({"type": "object", "properties": {"spec": {"type": "object"}},
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('a')", "message": "starts with a"},
        {"rule": "!has(self.metadata.labels)", "message": "sees labels"},
    ]}));
    let object = |name: &str| json!({"metadata": {"name": name, "labels": {"x": "y"}}});
    let errors = joined(&schema.validate(&object("b"), None));
    assert_eq!(errors, "<nil>: Invalid value: starts with a");
}

// Requirement: AS-9
#[test]
fn invalid_schemas_are_refused() {
    let rows = [
        (json!({"type": "array"}), "s.items: Required value: must be specified"),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            "s.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime \
             complexity becomes quadratic",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map",
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            "s.x-kubernetes-list-map-keys: Required value: must not be empty if \
             x-kubernetes-list-type is map",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            "s.items.properties[k].default: Required value: this property is in \
             x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
        (
            json!({"type": "integer", "default": "x"}),
            "s.default: Invalid value: \"string\": in body must be of type integer: \"string\"",
        ),
        (json!({"type": "string", "pattern": "("}), "must be a valid regular expression"),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self +"}]}),
            "s.x-kubernetes-validations[0].rule: Invalid value: \"self +\": compilation failed",
        ),
        (json!({"$ref": "x", "type": "string"}), "s.$ref: Forbidden: $ref is not supported"),
    ];
    for (spec, expected) in rows {
        let schema = json!({"type": "object", "properties": {"a": spec}});
        let errors = joined(&definition::check(&schema, &Path::new("r")));
        let errors = errors.replace("r.properties[a]", "s");
        assert!(errors.contains(expected), "{errors}");
    }
    let odd = json!({"type": "object", "properties": {"a": {"type": "string", "format": "odd"}}});
    assert_eq!(definition::warnings(&odd), ["unrecognized format \"odd\""]);
}

#[test]
fn duplicate_keys_and_integral_floats_are_detected() {
    let decoded = decode(br#"{"a":{"b":1,"b":2},"l":[{"c":1.0,"c":1.5}]}"#).unwrap();
    assert_eq!(decoded.value, json!({"a": {"b": 2}, "l": [{"c": 1.5}]}));
    assert_eq!(decoded.duplicates, ["a.b", "l[0].c"]);
    let mut value = json!([2.0, 2.5, -3.0, 1e300]);
    normalise(&mut value);
    assert_eq!(value, json!([2, 2.5, -3, 1e300]));
    assert!(decode(b"{} x").is_err());
}

fn schemas() -> impl Strategy<Value = Value> {
    let kind = prop_oneof!["object|array|string|integer|number|boolean|odd"];
    let leaf = (kind, arbitrary::value(), any::<bool>()).prop_map(|(kind, default, nullable)| {
        json!({"type": kind, "default": default, "nullable": nullable, "minLength": 1,
            "maximum": 2, "enum": [1, "a", null], "pattern": "^a", "format": "date"})
    });
    leaf.prop_recursive(3, 12, 3, |inner| {
        (inner.clone(), inner.clone(), inner, any::<bool>(), "map|set|atomic").prop_map(
            |(one, two, three, flag, list)| {
                json!({"type": "object", "properties": {"a": one, "spec": two},
                    "additionalProperties": three, "items": three, "anyOf": [one, two],
                    "x-kubernetes-list-type": list, "x-kubernetes-list-map-keys": ["a"],
                    "x-kubernetes-preserve-unknown-fields": flag, "required": ["a"],
                    "x-kubernetes-embedded-resource": flag, "not": two})
            },
        )
    })
}

proptest! {
    // Requirement: AS-6
    #[test]
    fn normalizing_is_idempotent(mut object in arbitrary::object()) {
        let schema = read(&arbitrary::widget_schema());
        if normalize(&mut object, &schema).is_ok() {
            let once = object.clone();
            prop_assert_eq!(normalize(&mut object, &schema), Ok(Vec::new()));
            prop_assert_eq!(object, once);
        }
    }

    // Requirement: AS-6
    #[test]
    fn a_pruned_object_has_no_unknown_fields(
        mut object in arbitrary::object(), schema in schemas(),
    ) {
        let Ok(schema) = Schema::parse(&schema) else { return Ok(()) };
        prune(&mut object, &schema);
        prop_assert_eq!(prune(&mut object, &schema), Vec::<String>::new());
        fill(&mut object, &schema);
        let once = object.clone();
        fill(&mut object, &schema);
        prop_assert_eq!(&object, &once);
    }

    // Requirement: AS-15
    #[test]
    fn no_schema_or_object_panics(
        mut object in arbitrary::object(), old in arbitrary::object(), schema in schemas(),
    ) {
        let _ = definition::check(&schema, &Path::new("s"));
        let _ = definition::check(&object, &Path::new("s"));
        let _ = definition::warnings(&schema);
        if let Ok(schema) = Schema::parse(&schema) {
            let _ = schema.validate(&object, Some(&old));
            let _ = normalize(&mut object, &schema);
            drop_nulls(&mut object, &schema);
            let _ = schema.validate(&object, None);
        }
    }

    // Requirement: AS-7
    #[test]
    fn an_unchanged_object_is_never_refused(object in arbitrary::object(), schema in schemas()) {
        let Ok(schema) = Schema::parse(&schema) else { return Ok(()) };
        let refused = schema.validate(&object, Some(&object));
        let embedded = refused.iter().all(|error| error.field.ends_with("apiVersion")
            || error.field.ends_with("kind") || error.field.contains("metadata"));
        prop_assert!(embedded, "{:?}", refused);
    }

    #[test]
    fn a_document_round_trips(value in arbitrary::value()) {
        let mut plain: Value = serde_json::from_str(&value.to_string()).unwrap();
        normalise(&mut plain);
        prop_assert_eq!(decode(value.to_string().as_bytes()).unwrap().value, plain);
    }

    #[test]
    fn no_string_makes_a_format_panic(text in ".{0,24}") {
        for name in format::KNOWN {
            let _ = format::holds(name, &text);
        }
    }
}

#[test]
fn a_pattern_that_compiles_too_large_is_refused() {
    let check = |pattern: &str| {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "pattern": pattern},
        }});
        definition::check(&schema, &Path::new("schema")).len()
    };
    assert_eq!((check("^\\w{1,63}$"), check("^\\w{1,150}$")), (0, 1));
}
