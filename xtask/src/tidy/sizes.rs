//! Files and lines that grew too long.

use crate::lines;

use super::{Finding, Subject};

/// Lines of a file before its tests.
const FILE_LINES_MAX: usize = 500;
/// Lines of a crate's sources without tests, and of the commands, which should know little.
const CRATE_LINES_MAX: usize = 12_000;
const CLI_LINES_MAX: usize = 5_500;
const CLI: &str = "crates/cli";
/// The rules, what tries them, and what others embed may be larger.
const LARGE: [&str; 3] = ["crates/domain", "crates/sim", "crates/apiserver"];
/// Characters of a line.
const LINE_CHARS_MAX: usize = 100;
/// What the first line of a file made by a tool contains.
const GENERATED: &str = concat!("@", "generated");

/// Finds Rust files and lines above their limit; what a tool made and test files may be longer.
pub(super) fn sizes(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tests = lines::files_of_tests(&subject.tree, &subject.members);
    let written = |text: &str| !text.lines().next().is_some_and(|line| line.contains(GENERATED));
    for (path, text) in subject.tree.of_kind("rs").filter(|(_, text)| written(text)) {
        let lines = lines::before_tests(text).lines().count();
        if lines > FILE_LINES_MAX && !tests.contains(path) {
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

/// Finds crates whose sources are above their limit.
pub(super) fn crates(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &subject.members {
        let most = match member.folder.as_str() {
            folder if LARGE.contains(&folder) => continue,
            CLI => CLI_LINES_MAX,
            _ => CRATE_LINES_MAX,
        };
        let sources = lines::sources(&subject.tree, member);
        let count: usize = sources.map(|(_, text)| text.lines().count()).sum();
        if count > most {
            let what = format!("{count} lines in src without tests, more than {most}");
            findings.push(Finding::new((&member.folder, 1), what, "move a duty to its own crate"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Member;
    use crate::tidy::files;
    use crate::tree::Tree;

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
    fn a_crate_above_its_limit_is_found() {
        let code = "x\n".repeat(CLI_LINES_MAX + 1);
        let member = |folder: &str| Member { folder: folder.into(), ..Member::default() };
        let found = |folder: &str| {
            let path = format!("{folder}/src/lib.rs");
            let tree = Tree::from([(path.as_str(), code.as_str())]);
            crates(&Subject { tree, members: vec![member(folder)] }).len()
        };
        assert_eq!((found(CLI), found("crates/store"), found(LARGE[0])), (1, 0, 0));
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
