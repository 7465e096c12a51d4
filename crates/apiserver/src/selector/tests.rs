use super::{FieldSelector, LabelSelector};
use proptest::prelude::*;
use serde_json::{Value, json};

fn refused(selector: &str) -> String {
    LabelSelector::parse(selector).unwrap_err().to_string()
}

fn matches(selector: &str, labels: &Value) -> bool {
    LabelSelector::parse(selector).unwrap().matches(labels.as_object())
}

// Requirement: AS-1
#[test]
fn labels_are_matched_by_every_operator() {
    let labels = json!({"app": "x", "tier": "front", "n": "5"});
    let rows = [
        ("", true),
        ("app=x", true),
        ("app==x", true),
        ("app=y", false),
        ("app!=x", false),
        ("app!=y", true),
        ("other!=y", true),
        ("app in (x,y)", true),
        ("app in (y)", false),
        ("app notin (x)", false),
        ("other notin (x)", true),
        ("app", true),
        ("other", false),
        ("!app", false),
        ("!other", true),
        ("app,tier=front", true),
        ("app=x,tier!=front", false),
        ("n>4", true),
        ("n<5", false),
        ("app>4", false),
        ("app=", false),
        ("in in (in)", false),
    ];
    for (selector, expected) in rows {
        assert_eq!(matches(selector, &labels), expected, "{selector}");
    }
    assert!(LabelSelector::parse("!app").unwrap().matches(None));
}

// Requirement: AS-1
#[test]
fn syntax_errors_have_the_messages_of_kubernetes() {
    let rows = [
        ("app in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("in (", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"),
        ("app in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        (
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' \
                 operators, the value must be an integer",
        ),
        (
            "a in ()",
            "unable to parse requirement: values: Invalid value: []: for 'in', 'notin' \
                     operators, values set can't be empty",
        ),
    ];
    for (selector, expected) in rows {
        assert_eq!(refused(selector), expected, "{selector}");
    }
    let bad_key = refused("a/b/c=1");
    let prefix = "unable to parse requirement: <nil>: Invalid value: \"a/b/c\": a valid label key";
    assert!(bad_key.starts_with(prefix), "{bad_key}");
    let bad_value = refused("a=b!");
    assert_eq!(bad_value, "found '!', expected: ',' or 'end of string'");
    let long = "x".repeat(64);
    assert!(refused(&format!("a={long}")).contains("values[0][a]: Invalid value:"));
}

#[test]
fn structured_selectors_match_alike() {
    let structured = json!({
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}],
    });
    let selector = LabelSelector::from_structured(&structured).unwrap();
    assert_eq!(selector.to_string(), "app in (x),tier notin (back)");
    let odd = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let refused = LabelSelector::from_structured(&odd).unwrap_err().to_string();
    assert_eq!(refused, "\"Near\" is not a valid label selector operator");
}

// Requirement: AS-1
#[test]
fn fields_are_compared_and_escaped() {
    let selector = FieldSelector::parse("a=1,b!=2,c==x\\,y,").unwrap();
    assert_eq!(selector.to_string(), "a=1,b!=2,c=x\\,y");
    assert_eq!(selector.pinned("c"), Some("x,y"));
    assert_eq!(selector.pinned("b"), None);
    let value = |field: &str| match field {
        "a" => "1".to_owned(),
        "c" => "x,y".to_owned(),
        _ => String::new(),
    };
    assert!(selector.matches(value));
    assert!(!selector.matches(|_| "1".to_owned()));
    let refused = |text: &str| FieldSelector::parse(text).unwrap_err().to_string();
    assert_eq!(refused("nonsense"), "invalid selector: 'nonsense'; can't understand 'nonsense'");
    assert_eq!(refused("a=\\x"), "invalid field selector: invalid escape sequence: \\x");
    assert_eq!(refused("a=b=c"), "invalid field selector: unescaped character in value: =");
}

proptest! {
    // Requirement: AS-1
    #[test]
    fn label_selectors_round_trip(
        text in "(!?[ab]|[ab](=|==|!=)[xy]?|[ab] (in|notin) \\([xy](,[xy]){0,2},?\\)|[ab][<>][0-9])\
                 (,([ab]|!c)){0,2}",
    ) {
        let read = LabelSelector::parse(&text).unwrap();
        let again = LabelSelector::parse(&read.to_string()).unwrap();
        prop_assert_eq!(read, again);
    }

    #[test]
    fn field_selectors_round_trip(
        pairs in prop::collection::vec(("[a-z.]{1,5}", any::<bool>(), "[a-z,=\\\\ é]{0,5}"), 0..4),
    ) {
        let escape = |value: &str| {
            value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
        };
        let terms: Vec<String> = pairs
            .iter()
            .map(|(field, equal, value)| {
                format!("{field}{}{}", if *equal { "=" } else { "!=" }, escape(value))
            })
            .collect();
        let read = FieldSelector::parse(&terms.join(",")).unwrap();
        prop_assert_eq!(read.requirements().len(), pairs.len());
        prop_assert_eq!(FieldSelector::parse(&read.to_string()), Ok(read));
    }

    // Requirement: AS-15
    #[test]
    fn no_string_makes_parsing_panic(text in "[!=()<>, a-c/in\\\\é]{0,30}") {
        if let Ok(read) = LabelSelector::parse(&text) {
            let _ = read.matches(json!({"a": "b"}).as_object());
        }
        let _ = FieldSelector::parse(&text);
    }
}
