//! An error that prints its source appears twice where the chain is printed.

use crate::rust;

use super::{Finding, Subject};

/// What begins an error's text.
const ATTRIBUTE: &str = "#[error(";

/// Finds error texts that repeat their source.
pub(super) fn errors(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in subject.tree.of_kind("rs") {
        let code = rust::code_only(text);
        for (at, _) in code.match_indices(ATTRIBUTE) {
            let end = rust::closing(&code, at + 1);
            let literals = rust::literals(text, &code, at, end);
            let Some((_, message)) = literals.first() else { continue };
            let item = &code[end..item_end(&code, end)];
            if let Some(name) = source_names(item).into_iter().find(|name| prints(message, name)) {
                findings.push(Finding::new(
                    (path, rust::line_at(&code, at)),
                    format!("the message prints its source {{{name}}}"),
                    "leave the source to the chain",
                ));
            }
        }
    }
    findings
}

/// Where the variant or struct behind an attribute ends.
fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' | b'(' | b'[' | b'<' => depth += 1,
            b'}' | b')' | b']' | b'>' => depth -= 1,
            b',' | b';' if depth == 0 => return at,
            _ => {}
        }
        if depth < 0 || byte == b'}' && depth == 0 {
            return at;
        }
    }
    code.len()
}

/// The names by which a message could print the sources of this item.
fn source_names(item: &str) -> Vec<String> {
    let Some(open) = item.match_indices(['{', '(']).map(|(at, _)| at).find(|at| {
        let before = item[..*at].trim_end();
        !before.is_empty() && before.ends_with(|c| rust::is_word(c) || c == '>')
    }) else {
        return Vec::new();
    };
    let fields = fields(&item[open + 1..]);
    fields
        .iter()
        .enumerate()
        .filter_map(|(index, field)| {
            let marked = field.contains("#[source]") || field.contains("#[from]");
            let declared = field.rsplit(']').next().unwrap_or(field);
            let name = declared
                .split_once(':')
                .filter(|(_, kind)| !kind.starts_with(':'))
                .and_then(|(name, _)| name.split_whitespace().last());
            match name {
                Some("source") => Some("source".to_owned()),
                Some(name) => marked.then(|| name.to_owned()),
                None => marked.then(|| index.to_string()),
            }
        })
        .collect()
}

/// The fields between the brackets of an item.
fn fields(body: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                fields.push(&body[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            fields.push(&body[start..at]);
            return fields;
        }
    }
    fields.push(&body[start..]);
    fields
}

fn prints(message: &str, name: &str) -> bool {
    message.match_indices(&format!("{{{name}")).any(|(at, found)| {
        !message[..at].ends_with('{') && message[at + found.len()..].starts_with(['}', ':', '.'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    fn found(text: &str) -> usize {
        errors(&files([("a/src/lib.rs", text)])).len()
    }

    // Requirement: H-12
    #[test]
    fn a_message_that_prints_its_source_is_found() {
        let texts = [
            "enum E { #[error(\"cannot read: {source}\")] Read { source: io::Error }, }",
            "enum E { #[error(\"cannot read: {0}\")] Read(#[from] io::Error), }",
            "enum E { #[error(\"{1:?}\")] Read(String, #[source] io::Error) }",
            "#[error(\"at {stage}: {trouble}\")]\npub struct S {\n  pub stage: u8,\n  \
             #[source]\n  pub trouble: T,\n}",
        ];
        for text in texts {
            assert_eq!(found(text), 1, "{text}");
        }
    }

    #[test]
    fn a_message_without_its_source_is_fine() {
        let texts = [
            "enum E { #[error(\"cannot read {name}\")] Read { name: String, source: io::Error }, }",
            "enum E { #[error(\"cannot read {0}\")] Read(String, #[source] io::Error) }",
            "enum E { #[error(transparent)] Read(#[from] io::Error) }",
            "enum E { #[error(\"a {what}\")] A { what: M<K, V> }, #[error(\"b\")] B(#[from] C) }",
            "#[error(\"stopped at {stage}\")] struct S { stage: u8, #[source] trouble: T }",
            "enum E { #[error(\"not {{source}}\")] Read { source: io::Error } }",
        ];
        for text in texts {
            assert_eq!(found(text), 0, "{text}");
        }
    }
}
