//! `lines`: code per crate, without comments, blank lines and tests.

use std::collections::BTreeSet;

use crate::failure::Outcome;
use crate::modules::{self, Follow};
use crate::output;
use crate::repo::{Member, Repo};
use crate::rust;
use crate::tree::Tree;

/// Prints the lines of every crate and their sum.
pub(crate) fn run(repo: &Repo) -> Outcome {
    let (tree, members) = (repo.tree()?, repo.members()?);
    let mut sum = 0;
    for member in &members {
        let lines: usize = sources(&tree, member).map(|(_, text)| code_lines(text)).sum();
        output::say(format_args!("{lines:>7}  {}", member.folder));
        sum += lines;
    }
    output::say(format_args!("{sum:>7}  sum"));
    Ok(())
}

/// The sources of a crate that are not tests, each without the tests at its end.
pub(crate) fn sources<'a>(
    tree: &'a Tree,
    member: &Member,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let folder = format!("{}/src/", member.folder);
    let tests = files_of_tests(tree, [member]);
    let files = tree.of_kind("rs").filter(move |(path, _)| path.starts_with(&folder));
    files
        .filter(move |(path, _)| !tests.contains(*path))
        .map(|(path, text)| (path, before_tests(text)))
}

/// The files in which everything is a test: those named so, and those that only `#[cfg(test)]`
/// modules reach.
pub(crate) fn files_of_tests<'a>(
    tree: &Tree,
    members: impl IntoIterator<Item = &'a Member>,
) -> BTreeSet<String> {
    let named = |path: &str| path.ends_with("/tests.rs") || path.contains("/tests/");
    let named = tree.of_kind("rs").map(|(path, _)| path.to_owned()).filter(|path| named(path));
    let mut tests: BTreeSet<String> = named.collect();
    for member in members {
        let product = modules::files(tree, &member.targets, Follow::Product);
        let all = modules::files(tree, &member.targets, Follow::All);
        tests.extend(all.difference(&product).cloned());
    }
    tests
}

/// The text in front of its module of tests.
pub(crate) fn before_tests(text: &str) -> &str {
    let mut end = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().map_or("", |next| next.trim_end());
        if line.trim_end() == "#[cfg(test)]" && next.starts_with("mod ") && next.ends_with('{') {
            break;
        }
        end += line.len();
    }
    &text[..end]
}

/// Lines that are neither blank nor only a comment; the lines of a long text count.
fn code_lines(text: &str) -> usize {
    let code = rust::code_only(text);
    let pairs = text.lines().zip(code.lines());
    let is_comment = |line: &str, code: &str| {
        code.trim().is_empty() && (line.is_empty() || line.starts_with("//"))
    };
    pairs.filter(|(line, code)| !is_comment(line.trim(), code)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! Why.\n\nconst SQL: &str = \"SELECT\n    1\";\n// Why.\nfn f() {} // x\n";
        assert_eq!(code_lines(text), 3);
        let tested = format!("{text}\n#[cfg(test)]\nmod tests {{\n    fn g() {{}}\n}}\n");
        assert_eq!(before_tests(&tested), format!("{text}\n"));
        let item = "#[cfg(test)]\nfn sample() {}\nfn f() {}\n";
        assert_eq!(before_tests(item), item);
    }

    #[test]
    fn a_crate_has_the_files_of_its_folder_only() {
        let tree = Tree::from([
            ("crates/a/src/lib.rs", "fn a() {}\n"),
            ("crates/a/src/x/tests.rs", "fn t() {}\n"),
            ("crates/a/tests/it.rs", "fn t() {}\n"),
            ("crates/ab/src/lib.rs", "fn b() {}\n"),
        ]);
        let member = Member { folder: "crates/a".into(), ..Member::default() };
        let found: Vec<_> = sources(&tree, &member).collect();
        assert_eq!(found, [("crates/a/src/lib.rs", "fn a() {}\n")]);
    }

    #[test]
    fn a_file_that_only_tests_include_is_a_test() {
        let lib = "mod x;\n#[cfg(test)]\nmod laws;\n#[cfg(test)]\npub(crate) mod fixture;\n\
                   mod both;\n#[cfg(test)]\nmod inline { mod part; }\nmod last;\n";
        let tree = Tree::from([
            ("a/src/both.rs", ""),
            ("a/src/fixture/deep.rs", ""),
            ("a/src/fixture/mod.rs", "mod deep;\n#[path = \"../both.rs\"]\nmod again;\n"),
            ("a/src/inline/part.rs", ""),
            ("a/src/last.rs", ""),
            ("a/src/laws.rs", "mod inner;"),
            ("a/src/laws/inner.rs", ""),
            ("a/src/lib.rs", lib),
            ("a/src/x.rs", ""),
        ]);
        let targets = vec!["a/src/lib.rs".to_owned()];
        let member = Member { folder: "a".into(), targets, ..Member::default() };
        let found: Vec<_> = sources(&tree, &member).map(|(path, _)| path).collect();
        assert_eq!(found, ["a/src/both.rs", "a/src/last.rs", "a/src/lib.rs", "a/src/x.rs"]);
    }
}
