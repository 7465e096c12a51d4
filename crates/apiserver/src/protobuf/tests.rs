use proptest::prelude::*;

use super::*;

/// A length-delimited field.
fn bytes(number: u8, inside: &[u8]) -> Vec<u8> {
    let length = u8::try_from(inside.len()).expect("a short one");
    let key =
        if number < 16 { vec![number << 3 | 2] } else { vec![number << 3 | 0x82, number >> 4] };
    [&key[..], &[length], inside].concat()
}

fn text(number: u8, inside: &str) -> Vec<u8> {
    bytes(number, inside.as_bytes())
}

fn number(at: u8, value: u8) -> Vec<u8> {
    vec![at << 3, value]
}

fn enveloped(version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let named = [text(1, version), text(2, kind)].concat();
    [MAGIC, &bytes(1, &named), &bytes(2, object), &text(3, ""), &text(4, "")].concat()
}

// Requirement: AS-16
#[test]
fn empty_fields_are_omitted_and_given_ones_stay() {
    let meta = [text(1, "m"), text(2, ""), number(7, 0), bytes(8, &[])].concat();
    let entry = [text(1, "k"), text(2, "")].concat();
    let object = [bytes(1, &meta), bytes(2, &entry), number(4, 0)].concat();
    let read = read(&enveloped("v1", "ConfigMap", &object), ("", "ConfigMap"));
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "m"},
        "data": {"k": ""},
        "immutable": false,
    });
    assert_eq!(read, Ok(wanted));
}

// Requirement: AS-16
#[test]
fn times_bytes_and_lists_have_their_json_form() {
    let entry = [text(1, "k"), bytes(2, &[0, 255])].concat();
    let meta = [text(1, "s"), text(14, "a/b"), text(14, "c/d")].concat();
    let meta = [meta, bytes(8, &[number(1, 60), number(2, 7)].concat())].concat();
    let secret = enveloped("v1", "Secret", &[bytes(1, &meta), bytes(2, &entry)].concat());
    let wanted = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "finalizers": ["a/b", "c/d"],
            "creationTimestamp": "1970-01-01T00:01:00Z",
        },
        "data": {"k": "AP8="},
    });
    assert_eq!(read(&secret, ("", "Secret")), Ok(wanted));
    let renewed = [number(1, 1), vec![2 << 3, 0xd0, 0x86, 0x03]].concat();
    let spec = [text(1, ""), bytes(4, &renewed), number(5, 0)].concat();
    let lease = enveloped("coordination.k8s.io/v1", "Lease", &bytes(2, &spec));
    let lease = read(&lease, ("coordination.k8s.io", "Lease")).expect("a lease");
    let wanted = json!({
        "holderIdentity": "",
        "renewTime": "1970-01-01T00:00:01.000050Z",
        "leaseTransitions": 0,
    });
    assert_eq!(lease["spec"], wanted);
}

// Requirement: AS-16
#[test]
fn an_object_of_another_kind_has_only_its_type() {
    let object = enveloped("v1", "Pod", &text(1, "not a map"));
    let wanted = json!({"apiVersion": "v1", "kind": "Pod"});
    assert_eq!(read(&object, ("", "ConfigMap")), Ok(wanted));
}

// Requirement: AS-16
#[test]
fn missing_magic_and_truncation_are_errors() {
    assert_eq!(read(b"{}", ("", "ConfigMap")), Err(Unreadable::NotMarked));
    let whole = enveloped("v1", "ConfigMap", &bytes(1, &text(1, "name")));
    for end in MAGIC.len() + 1..whole.len() {
        let cut = whole.get(..end).expect("a part");
        let _ = read(cut, ("", "ConfigMap"));
    }
    assert_eq!(read(&whole[..9], ("", "ConfigMap")), Err(Unreadable::Broken));
    let more = enveloped("v1", "ConfigMap", &text(9, "?"));
    assert_eq!(read(&more, ("", "ConfigMap")), Err(Unreadable::Unknown(9)));
}

#[test]
fn invalid_managed_fields_are_an_error() {
    let managed = |fields: &str| {
        let entry = [text(1, "m"), bytes(7, &text(1, fields))].concat();
        let object = bytes(1, &bytes(17, &entry));
        read(&enveloped("v1", "ConfigMap", &object), ("", "ConfigMap"))
    };
    let object = |entry: Value| {
        let metadata = json!({"managedFields": [entry]});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    };
    let whole = json!({"manager": "m", "fieldsV1": {"f:data": {}}});
    assert_eq!(managed(r#"{"f:data":{}}"#), Ok(object(whole)));
    assert_eq!(managed(""), Ok(object(json!({"manager": "m"}))));
    assert_eq!(managed(r#"{"f:data":{"#), Err(Unreadable::Broken));
}

proptest! {
    // Requirement: AS-15
    #[test]
    fn no_bytes_panic(
        body in prop::collection::vec(any::<u8>(), 0..200),
        kind in prop::sample::select(vec!["ConfigMap", "Secret", "Event", "Namespace"]),
    ) {
        let _ = read(&[MAGIC, &body].concat(), ("", kind));
        let _ = read(&enveloped("v1", kind, &body[..body.len().min(90)]), ("", kind));
    }
}
