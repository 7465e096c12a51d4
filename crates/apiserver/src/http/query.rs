//! Query strings.

use crate::status::Refusal;

/// Names and values, decoded, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let split = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        };
        Self(pairs.map(split).collect())
    }

    /// The first value of a parameter; empty counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Whether a parameter is given, even without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// A boolean parameter.
    pub(crate) fn flag(&self, name: &str) -> bool {
        match self.0.iter().find(|(key, _)| key == name) {
            Some((_, value)) => !matches!(value.to_lowercase().as_str(), "false" | "0"),
            None => false,
        }
    }

    /// A numeric parameter.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            Refusal::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
        })
    }
}

/// Decodes percent-encoding, and `+` as a space if `plus`.
pub(crate) fn decode(text: &str, plus: bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' if plus => out.push(b' '),
            b'%' => {
                let digits: Vec<u8> = bytes.clone().take(2).collect();
                let code = std::str::from_utf8(&digits).ok();
                let code = code.filter(|code| code.len() == 2);
                if let Some(code) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
                    out.push(code);
                    bytes.nth(1);
                } else {
                    out.push(byte);
                }
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
