//! What was meant to go before the change was finished.

use crate::rust;
use crate::tree::is_kind;

use super::{Finding, Subject};

/// Unfinished code, by how it begins.
const IN_CODE: [(&str, &str); 4] = [
    ("todo!", "finish it, or refuse with a reason"),
    ("unimplemented!", "finish it, or refuse with a reason"),
    ("#[ignore", "run the test, or put it in a command of its own"),
    ("dbg!", "remove it"),
];
/// Marks of unfinished work in any text; spelt so that this file has none.
const IN_TEXT: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
/// Paths that exist on one machine only; spelt so that this file has none.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/Use", "rs/"),
    concat!("/ro", "ot/."),
    concat!("../sha", "red"),
];
/// Not written by us.
const FOREIGN: [&str; 2] = ["LICENSE", "Cargo.lock"];

/// Finds unfinished code and marks of unfinished work.
pub(super) fn leftovers(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in ours(subject) {
        if is_kind(path, "rs") {
            let code = rust::code_only(text);
            for (mark, remedy) in IN_CODE {
                let places = code.match_indices(mark).map(|(at, _)| at);
                for at in places.filter(|at| !code[..*at].ends_with(rust::is_word)) {
                    let place = (path, rust::line_at(&code, at));
                    findings.push(Finding::new(place, format!("{mark} in the code"), remedy));
                }
            }
        }
        for mark in IN_TEXT {
            for (at, _) in text.match_indices(mark) {
                let before = text[..at].chars().next_back().is_some_and(rust::is_word);
                let after = text[at + mark.len()..].starts_with(rust::is_word);
                if !before && !after {
                    let place = (path, rust::line_at(text, at));
                    findings.push(Finding::new(place, format!("a {mark}"), "do it, or delete it"));
                }
            }
        }
    }
    findings
}

/// Finds paths of one machine.
pub(super) fn machine_paths(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in ours(subject) {
        for machine_path in MACHINE_PATHS {
            for (at, _) in text.match_indices(machine_path) {
                let begins = !text[..at].ends_with(|c| rust::is_word(c) || matches!(c, '-' | '}'));
                if begins {
                    findings.push(Finding::new(
                        (path, rust::line_at(text, at)),
                        format!("{machine_path} exists on one machine only"),
                        "name it from the root of the repository",
                    ));
                }
            }
        }
    }
    findings
}

fn ours(subject: &Subject) -> impl Iterator<Item = (&str, &str)> {
    subject.tree.under("").filter(|(path, _)| !FOREIGN.contains(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    // Requirement: H-11
    #[test]
    fn unfinished_code_is_found_in_code_only() {
        let count = |text: &str| leftovers(&files([("a.rs", text)])).len();
        let found = [
            "fn f() { todo!() }",
            "#[ignore = \"slow\"]\nfn f() {}",
            "dbg!(1);",
            "unimplemented!()",
        ];
        for text in found {
            assert_eq!(count(text), 1, "{text}");
        }
        assert_eq!(count("// todo! is banned\nconst A: &str = \"#[ignore]\"; my_dbg!();"), 0);
    }

    #[test]
    fn marks_of_unfinished_work_are_found_everywhere() {
        for mark in IN_TEXT {
            let found = leftovers(&files([("docs/a.md", &format!("# A\n\n{mark}: later\n"))]));
            assert_eq!((found.len(), found[0].line), (1, 3), "{mark}");
            let inside = format!("A{mark}B and {mark}_{mark}");
            assert_eq!(leftovers(&files([("a.md", &inside)])), [], "{inside}");
        }
    }

    // Requirement: H-11
    #[test]
    fn paths_of_a_machine_are_found() {
        for path in MACHINE_PATHS {
            let text = format!("see {path}x\n");
            assert_eq!(machine_paths(&files([("README.md", &text)])).len(), 1, "{path}");
            assert_eq!(machine_paths(&files([("LICENSE", &text)])), [], "{path}");
        }
        let inside = format!("https://example.com{}x", MACHINE_PATHS[0]);
        assert_eq!(machine_paths(&files([("a.md", &inside)])), []);
    }
}
