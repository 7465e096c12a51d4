use super::JsonPath;
use super::table::{age, cell};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

fn find(path: &str) -> Vec<Value> {
    let document = json!({
        "spec": {"replicas": 3, "tags": ["x", "y", "z"], "a.b": {"c": 1}},
        "status": {"conditions": [
            {"type": "Synced", "status": "True", "n": 1},
            {"type": "Ready", "status": "False", "n": 2, "why": "late"},
        ]},
    });
    JsonPath::parse(path).unwrap().all(&document).into_iter().cloned().collect()
}

// Requirement: AS-14
#[test]
fn every_form_of_a_path_matches() {
    let rows = [
        (".spec.replicas", json!([3])),
        ("{.spec.replicas}", json!([3])),
        ("$.spec.replicas", json!([3])),
        ("spec.replicas", json!([3])),
        (".spec.missing.more", json!([])),
        (".spec['a.b'].c", json!([1])),
        (".spec.a\\.b.c", json!([1])),
        (".spec.tags[0]", json!(["x"])),
        (".spec.tags[-1]", json!(["z"])),
        (".spec.tags[9]", json!([])),
        (".spec.tags[0:2]", json!(["x", "y"])),
        (".spec.tags[1:]", json!(["y", "z"])),
        (".spec.tags[*]", json!(["x", "y", "z"])),
        (".status.conditions[?(@.type==\"Ready\")].status", json!(["False"])),
        (".status.conditions[?(@.type=='Ready')].status", json!(["False"])),
        (".status.conditions[?(@.type!=\"Ready\")].status", json!(["True"])),
        (".status.conditions[?(@.n>1)].type", json!(["Ready"])),
        (".status.conditions[?(@.why)].type", json!(["Ready"])),
        (
            "..status",
            json!([{"conditions": [
            {"type": "Synced", "status": "True", "n": 1},
            {"type": "Ready", "status": "False", "n": 2, "why": "late"},
        ]}, "True", "False"]),
        ),
    ];
    for (path, expected) in rows {
        assert_eq!(Value::from(find(path)), expected, "{path}");
    }
}

#[test]
fn an_invalid_path_is_named_in_the_error() {
    for path in ["{.a", ".a[", ".a[]", ".a[x]", ".a[?(@.b=={})]", ".a b", "..", ".a[?(@[?(@.b)])]"]
    {
        let refused = JsonPath::parse(path).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("invalid path \"{path}\"")), "{refused}");
    }
}

#[test]
fn only_a_simple_path_can_be_written() {
    let mut scaled = json!({"spec": {}});
    let path = JsonPath::parse(".spec.deep.replicas").unwrap();
    assert!(path.is_simple() && path.put(&mut scaled, json!(7)));
    assert_eq!(scaled, json!({"spec": {"deep": {"replicas": 7}}}));
    assert!(!JsonPath::parse(".spec[0]").unwrap().put(&mut scaled, json!(1)));
    assert!(!JsonPath::parse(".spec.deep.replicas.x").unwrap().put(&mut scaled, json!(1)));
    assert_eq!(scaled, json!({"spec": {"deep": {"replicas": 7}}}));
}

#[test]
fn cells_show_values_of_their_type_only() {
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
    let rows = [
        ("string", json!("a"), json!("a")),
        ("string", json!(["x", "y"]), json!("[\"x\",\"y\"]")),
        ("string", json!(4), json!("4")),
        ("integer", json!(4), json!(4)),
        ("integer", json!(4.7), json!(4)),
        ("integer", json!("4"), Value::Null),
        ("number", json!(1.5), json!(1.5)),
        ("boolean", json!(true), json!(true)),
        ("boolean", json!("true"), Value::Null),
        ("date", json!("2026-01-01T00:00:00Z"), json!("60m")),
        ("date", json!("never"), json!("<invalid>")),
        ("string", Value::Null, Value::Null),
    ];
    for (kind, value, expected) in rows {
        assert_eq!(cell(kind, Some(&value), now), expected, "{kind} {value}");
    }
    assert_eq!(cell("string", None, now), Value::Null);
}

// Requirement: AS-14
#[test]
fn ages_have_one_or_two_units() {
    let then = Timestamp::from_second(1_000_000_000).unwrap();
    let rows: [(i64, &str); 16] = [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_100, "3h5m"),
        (28_800, "8h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (252_288_000, "8y"),
    ];
    for (seconds, expected) in rows {
        let now = Timestamp::from_second(1_000_000_000 + seconds).unwrap();
        assert_eq!(age(then, now), expected, "{seconds}");
    }
}

proptest! {
    // Requirement: AS-15
    #[test]
    fn no_string_makes_parsing_panic(path in "[\\[\\]().$@*'\"\\\\:?=<>!a-c0-9{} -]{0,40}") {
        if let Ok(read) = JsonPath::parse(&path) {
            let mut document = json!({"a": [{"b": 1}, {"c": [2, 3]}], "b": {"a": 1}});
            let _ = read.all(&document);
            let _ = read.put(&mut document, json!(1));
        }
    }
}
