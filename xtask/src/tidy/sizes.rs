//! Files and lines that grew too long.

use super::{Finding, Subject};

/// Lines of a file before its tests.
const FILE_LINES_MAX: usize = 500;
/// Characters of a line.
const LINE_CHARS_MAX: usize = 100;
/// What the first line of a file made by a tool contains.
const GENERATED: &str = concat!("@", "generated");

/// Finds Rust files and lines above their limit; what a tool made and test files may be longer.
pub(super) fn sizes(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    let written = |text: &str| !text.lines().next().is_some_and(|line| line.contains(GENERATED));
    for (path, text) in subject.tree.of_kind("rs").filter(|(_, text)| written(text)) {
        let lines = lines_before_tests(text);
        if lines > FILE_LINES_MAX && !is_test_file(path) {
            let what = format!("{lines} lines before the tests, more than {FILE_LINES_MAX}");
            findings.push(Finding::new((path, 1), what, "split it by duty"));
        }
        for (index, line) in text.lines().enumerate() {
            let length = line.chars().count();
            if length > LINE_CHARS_MAX {
                let what = format!("{length} characters, more than {LINE_CHARS_MAX}");
                findings.push(Finding::new((path, index + 1), what, "break the line"));
            }
        }
    }
    findings
}

fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0] == "#[cfg(test)]" && (pair[1].starts_with("mod ") && pair[1].ends_with('{'))
    });
    tests.unwrap_or(lines.len())
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let findings = sizes(&files([(path, text)]));
        findings.into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    // Requirement: H-7
    #[test]
    fn a_file_of_501_lines_is_found_and_its_tests_do_not_count() {
        let code = "x\n".repeat(501);
        let what = "501 lines before the tests, more than 500".to_owned();
        assert_eq!(found("a/src/lib.rs", &code), [(1, what)]);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{code}}}\n", "x\n".repeat(500));
        assert_eq!(found("a/src/lib.rs", &tested), []);
        assert_eq!(found("a/src/broker/tests.rs", &code), []);
    }

    #[test]
    fn a_test_only_item_in_the_middle_does_not_end_the_count() {
        let text = format!("#[cfg(test)]\nfn sample() {{}}\n{}", "x\n".repeat(600));
        assert_eq!(found("a/src/lib.rs", &text).len(), 1);
    }

    // Requirement: H-7
    #[test]
    fn a_line_of_101_characters_is_found() {
        let text = format!("ok\n// {}\n", "é".repeat(98));
        let what = "101 characters, more than 100".to_owned();
        assert_eq!(found("a/src/lib.rs", &text), [(2, what)]);
        assert_eq!(found("a/src/lib.rs", &format!("// {GENERATED}\n{text}")), []);
    }
}
