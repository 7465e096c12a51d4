//! Names that say nothing.

use crate::rust;

use super::{Finding, Subject};

/// A folder or file of this name becomes a drawer.
const DRAWERS: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "misc", "shared", "types"];
/// A word of this kind in a name says nothing about the thing.
const EMPTY_WORDS: [&str; 6] = ["manager", "helper", "helpers", "util", "utils", "common"];
/// A type's last word that says nothing.
const EMPTY_ENDINGS: [&str; 3] = ["impl", "data", "info"];
/// Words of the trade, and of what we implement for others, that sound like that.
const TRADE_WORDS: [&str; 3] = ["user data", "field manager", "connect info"];
/// Associated types of traits of others: the frames of an HTTP body.
const FOREIGN_TYPES: [&str; 1] = ["data"];
/// A function that begins so does not say what it does.
const EMPTY_VERBS: [&str; 4] = ["do", "handle", "process", "test"];
/// What precedes the name of an item.
const KEYWORDS: [&str; 8] = ["struct", "enum", "trait", "type", "fn", "mod", "const", "static"];

/// Finds items whose names use banned words.
pub(super) fn words(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in subject.tree.of_kind("rs") {
        let code = rust::code_only(text);
        let words: Vec<(usize, &str)> = rust::words(&code).collect();
        for pair in words.windows(2) {
            let [(_, keyword), (at, name)] = *pair else { continue };
            if !KEYWORDS.contains(&keyword) {
                continue;
            }
            if let Some(word) = empty_word(keyword, name) {
                findings.push(Finding::new(
                    (path, rust::line_at(&code, at)),
                    format!("the name {name} says nothing with \"{word}\""),
                    "name the thing by its duty, the function by its verb, the test by a sentence",
                ));
            }
        }
    }
    findings
}

/// Finds files and folders with a drawer's name.
pub(super) fn files(subject: &Subject) -> Vec<Finding> {
    let rust_files = subject.tree.of_kind("rs");
    rust_files
        .filter(|(path, _)| {
            path.split('/').any(|part| DRAWERS.contains(&part.trim_end_matches(".rs")))
        })
        .map(|(path, _)| {
            Finding::new((path, 1), "the file or its folder is a drawer", "name it by its duty")
        })
        .collect()
}

fn empty_word(keyword: &str, name: &str) -> Option<String> {
    let parts = parts(name);
    if TRADE_WORDS.iter().any(|phrase| parts.join(" ").contains(phrase)) {
        return None;
    }
    if let Some(word) = parts.iter().find(|part| EMPTY_WORDS.contains(&part.as_str())) {
        return Some(word.clone());
    }
    if keyword == "fn" {
        let first = parts.first().filter(|part| EMPTY_VERBS.contains(&part.as_str()));
        return first.cloned();
    }
    if keyword == "type" && FOREIGN_TYPES.contains(&parts.join(" ").as_str()) {
        return None;
    }
    let is_type = matches!(keyword, "struct" | "enum" | "trait" | "type");
    let last = parts.last().filter(|part| is_type && EMPTY_ENDINGS.contains(&part.as_str()));
    last.cloned()
}

/// The words of a name, in small letters.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in name.chars() {
        let begins = c == '_' || c.is_uppercase() && !name.contains('_');
        if begins {
            parts.push(String::new());
        }
        if let (Some(part), true) = (parts.last_mut(), c != '_') {
            part.extend(c.to_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy;

    fn found(text: &str) -> usize {
        words(&tidy::files([("a/src/lib.rs", text)])).len()
    }

    // Requirement: H-10
    #[test]
    fn empty_names_are_found() {
        let texts = [
            "struct LeaseManager;",
            "trait StepHelper {}",
            "mod utils;",
            "fn common_part() {}",
            "struct LedgerImpl;",
            "enum PeerInfo {}",
            "struct ResourceData;",
            "fn handle(x: u8) {}",
            "fn process_row() {}",
            "fn do_step() {}",
            "fn test_step() {}",
            "const HELPER_MAX: u8 = 1;",
        ];
        for text in texts {
            assert_eq!(found(text), 1, "{text}");
        }
    }

    #[test]
    fn names_of_the_trade_and_words_in_texts_are_not() {
        let texts = [
            "struct UserData;",
            "type Data = Bytes;",
            "fn handles_are_closed() {}",
            "fn metadata() {}",
            "// struct Manager\nconst A: &str = \"struct Manager\";",
            "const FIELD_MANAGER: &str = \"x\";",
            "fn a_test_is_a_sentence() {}",
            "struct Implied;",
        ];
        for text in texts {
            assert_eq!(found(text), 0, "{text}");
        }
    }

    // Requirement: H-10
    #[test]
    fn drawers_are_found() {
        for path in ["a/src/utils.rs", "a/src/common/mod.rs", "a/tests/helpers/x.rs"] {
            assert_eq!(files(&tidy::files([(path, "")])).len(), 1, "{path}");
        }
        assert_eq!(files(&tidy::files([("a/src/object/mod.rs", "")])), []);
    }
}
