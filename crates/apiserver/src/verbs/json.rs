//! Parses JSON with duplicate keys; errors have the messages of Go.

use serde_json::Value;

use crate::patch::go_type;
use crate::schema::decode;

/// A document and the paths of duplicate keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// Parses JSON.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let decoded = decode::decode(bytes).map_err(|error| sentence(bytes, &error))?;
    let mut value = decoded.value;
    decode::normalise(&mut value);
    Ok(Parsed { value, duplicates: decoded.duplicates })
}

/// The error of a document that is not an object.
pub(crate) fn no_object(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of \
         type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
         \"json:\\\"kind,omitempty\\\"\" }}",
        go_type(value)
    )
}

/// The error of invalid JSON.
pub(crate) fn sentence(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1));
    let offender = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    let shown = offender.map_or_else(|| "'\\n'".to_owned(), |byte| quoted(*byte));
    let given = error.to_string();
    let place = [
        ("key must be a string", "looking for beginning of object key string"),
        ("expected `:`", "after object key"),
        ("expected `,` or `}`", "after object key:value pair"),
        ("expected `,` or `]`", "after array element"),
        ("trailing characters", "after top-level value"),
        ("control character", "in string literal"),
    ];
    let place = place.iter().find(|(start, _)| given.starts_with(start));
    let place = place.map_or("looking for beginning of value", |(_, place)| place);
    format!("invalid character {shown} {place}")
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        0x20..0x7f => format!("'{}'", char::from(byte)),
        other => format!("'\\u{:04x}'", u32::from(other)),
    }
}
