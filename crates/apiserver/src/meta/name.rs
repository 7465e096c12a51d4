//! Validation of names: each function returns the errors.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1123: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
    '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
    '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
    'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
    and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
    used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
    'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The validation rule of the names of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameRule {
    /// An RFC 1123 subdomain: most kinds.
    #[default]
    Subdomain,
    /// An RFC 1123 label: namespaces.
    Label,
    /// An RFC 1035 label: services.
    Label1035,
    /// A path segment: roles and bindings.
    PathSegment,
}

/// Validates a name; a prefix (`generateName`) may end with a dash.
pub fn check(rule: NameRule, name: &str, prefix: bool) -> Vec<String> {
    let masked = match name.strip_suffix('-') {
        Some(stem) if prefix && !stem.is_empty() => {
            let mut kept: String = stem.to_owned();
            kept.pop();
            kept + "a"
        }
        Some(_) | None => name.to_owned(),
    };
    match rule {
        NameRule::Subdomain => subdomain(&masked),
        NameRule::Label => label(&masked),
        NameRule::Label1035 => label_1035(&masked),
        NameRule::PathSegment => path_segment(name, prefix),
    }
}

/// An RFC 1123 subdomain.
pub fn subdomain(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        wrong.push(format!("must be no more than {SUBDOMAIN_MAX} characters"));
    }
    if !name.split('.').all(is_label) {
        wrong.push(SUBDOMAIN.to_owned());
    }
    wrong
}

/// An RFC 1123 label.
pub fn label(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > LABEL_MAX {
        wrong.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !is_label(name) {
        wrong.push(LABEL_1123.to_owned());
    }
    wrong
}

/// An RFC 1035 label.
pub fn label_1035(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > LABEL_MAX {
        wrong.push(format!("must be no more than {LABEL_MAX} characters"));
    }
    if !is_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(LABEL_1035.to_owned());
    }
    wrong
}

/// A qualified name: the key of a label or annotation.
pub fn qualified(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('/').collect();
    let mut wrong = Vec::new();
    let word = match parts.as_slice() {
        [word] => word,
        [prefix, word] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(
                    subdomain(prefix).into_iter().map(|text| format!("prefix part {text}")),
                );
            }
            word
        }
        _ => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if word.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if word.len() > LABEL_MAX {
        wrong.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_word(word) {
        wrong.push(format!("name part {QUALIFIED}"));
    }
    wrong
}

/// A label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if value.len() > LABEL_MAX {
        wrong.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !value.is_empty() && !is_word(value) {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}

/// A path segment.
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|illegal| name.contains(*illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

/// A generated name: the prefix, cut to fit, and a random suffix.
pub fn generated(prefix: &str, suffix: &str) -> String {
    let most = LABEL_MAX - 5;
    let mut end = prefix.len().min(most);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", prefix.get(..end).unwrap_or_default())
}

/// The characters of generated suffixes: no vowels, no similar ones.
pub const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The length of a generated suffix.
pub const SUFFIX_LENGTH: usize = 5;

fn is_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
        && bytes.iter().all(|byte| plain(byte) || *byte == b'-')
}

fn is_word(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
