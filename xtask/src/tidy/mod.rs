//! `tidy`: what the compiler does not check.
//!
//! **Invariants**
//! - A check is a function from the files and cargo's metadata to findings; it prints nothing.
//! - Every check has a test in which it finds something.

mod bans;
mod codes;
mod contexts;
mod dead_files;
mod edges;
mod errors;
mod leftovers;
mod links;
mod map;
mod names;
mod sizes;
mod words;

use std::fmt;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::{Member, Repo};
use crate::requirements;
use crate::tree::Tree;

/// Every check by its name.
pub(crate) const CHECKS: [(&str, Check); 21] = [
    // Requirement: H-1
    ("edges", edges::edges),
    // Requirement: K-13, H-2
    ("dependencies", edges::dependencies),
    // Requirement: H-3
    ("contexts", contexts::contexts),
    // Requirement: H-18
    ("files-of-a-context", contexts::files_of_a_context),
    // Requirement: H-4
    ("dead-files", dead_files::dead_files),
    // Requirement: H-7
    ("sizes", sizes::sizes),
    ("crate-sizes", sizes::crates),
    ("vague-words", words::vague),
    ("worn-names", words::worn),
    // Requirement: H-10
    ("names", names::words),
    // Requirement: H-10
    ("file-names", names::files),
    // Requirement: H-8
    ("map", map::map),
    // Requirement: H-8
    ("paths", map::paths),
    // Requirement: A-18, HC-5, F-41, H-5
    ("codes", codes::codes),
    // Requirement: H-9
    ("links", links::links),
    // Requirement: H-9
    ("titles", links::titles),
    // Requirement: K-13, H-6
    ("bans", bans::bans),
    // Requirement: H-11
    ("leftovers", leftovers::leftovers),
    // Requirement: H-11
    ("machine-paths", leftovers::machine_paths),
    // Requirement: H-12
    ("errors", errors::errors),
    // Requirement: H-14
    ("requirements", tags),
];

/// Finds what is wrong of one kind.
pub(crate) type Check = fn(&Subject) -> Vec<Finding>;

/// What is examined.
#[derive(Debug, Default)]
pub(crate) struct Subject {
    /// The files.
    pub(crate) tree: Tree,
    /// The workspace's members.
    pub(crate) members: Vec<Member>,
}

/// Something wrong, where it is, and what to do.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the root.
    pub(crate) file: String,
    /// The line, counted from one.
    pub(crate) line: usize,
    /// What is wrong.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) remedy: String,
}

impl Finding {
    /// A finding at this place.
    pub(crate) fn new(
        (file, line): (&str, usize),
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { file: file.to_owned(), line, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} — {}", self.file, self.line, self.what, self.remedy)
    }
}

/// Runs every check over the repository.
pub(crate) fn run(repo: &Repo) -> Outcome {
    let subject = Subject { tree: repo.tree()?, members: repo.members()? };
    let mut findings: Vec<Finding> = CHECKS.iter().flat_map(|(_, check)| check(&subject)).collect();
    findings.sort();
    for finding in &findings {
        output::say(finding);
    }
    let closing = format!("tidy: {} checks, {} findings", CHECKS.len(), findings.len());
    if findings.is_empty() {
        output::say(closing);
        return Ok(());
    }
    Err(Failure::message(closing))
}

fn tags(subject: &Subject) -> Vec<Finding> {
    let remedy = "put the tag above the test that holds it, or say `open: reason`";
    requirements::problems(&subject.tree)
        .into_iter()
        .map(|it| Finding::new((&it.file, it.line), it.what, remedy))
        .collect()
}

/// The line of the first occurrence, or the first line.
fn line_of(text: &str, part: &str) -> usize {
    text.lines().position(|line| line.contains(part)).map_or(1, |index| index + 1)
}

#[cfg(test)]
fn files<const N: usize>(files: [(&str, &str); N]) -> Subject {
    Subject { tree: Tree::from(files), members: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_place_and_remedy() {
        let finding = Finding::new(("a.rs", 3), "it is wrong", "put it right");
        assert_eq!(finding.to_string(), "a.rs:3: it is wrong — put it right");
    }

    #[test]
    fn a_requirement_without_a_tag_is_found() {
        let list = "| ID | requirement | test(s) | turned red by |\n| K-1 | x | table:none | y |\n";
        let found = tags(&files([("docs/requirements.md", list)]));
        assert_eq!((found.len(), found[0].line), (1, 2));
    }

    #[test]
    fn no_two_checks_share_a_name() {
        let names: std::collections::BTreeSet<_> = CHECKS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), CHECKS.len());
    }
}
