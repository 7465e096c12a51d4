//! Words without a subject, and names that every context once had its own meaning for.

use crate::rust;

use super::{Finding, Subject};

/// Each leaves open which part of the program is meant.
const VAGUE: [&str; 3] = [concat!("who", "ever"), concat!("some", "body"), concat!("no", "body")];
/// So many lines of the sources may contain one: the Unix user of that name.
const SOURCE_LINES_MAX: usize = 3;
/// These four name tests of the world of files.
const DOCUMENT_LINES_MAX: usize = 4;
/// The world of files is deleted soon and not polished before.
const EXEMPT: [&str; 2] = ["crates/local/", "crates/usher/tests/local/"];
/// Names that say nothing, because many things had them.
const WORN: [(&str, &[&str]); 2] =
    [("fn", &["told"]), ("struct enum trait type", &["Life", "Heard", "Order"])];
/// So many of them may be left.
const WORN_MAX: usize = 0;

/// Finds files with vague words if there are more than are allowed.
pub(super) fn vague(subject: &Subject) -> Vec<Finding> {
    let kinds = [("rs", SOURCE_LINES_MAX), ("md", DOCUMENT_LINES_MAX)];
    kinds.iter().flat_map(|(kind, most)| vague_of_kind(subject, kind, *most)).collect()
}

fn vague_of_kind(subject: &Subject, kind: &str, most: usize) -> Vec<Finding> {
    let is_vague = |line: &&str| {
        let line = line.to_lowercase();
        VAGUE.iter().any(|word| line.contains(word))
    };
    let counts =
        exempted(subject, kind).map(|(path, text)| (path, text.lines().filter(is_vague).count()));
    let counts: Vec<(&str, usize)> = counts.filter(|(_, count)| *count > 0).collect();
    let sum: usize = counts.iter().map(|(_, count)| count).sum();
    if sum <= most {
        return Vec::new();
    }
    let finding = |(path, count): (&str, usize)| {
        let what = format!("{count} of {sum} lines with {}, at most {most}", VAGUE.join("/"));
        Finding::new((path, 1), what, "name the thing that acts: the worker, the lease holder")
    };
    counts.into_iter().map(finding).collect()
}

/// Finds worn names if there are more than are allowed.
pub(super) fn worn(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in exempted(subject, "rs") {
        let code = rust::code_only(text);
        let words: Vec<(usize, &str)> = rust::words(&code).collect();
        for pair in words.windows(2) {
            let [(_, keyword), (at, name)] = *pair else { continue };
            let mut lists =
                WORN.iter().filter(|(known, _)| known.split(' ').any(|it| it == keyword));
            if lists.any(|(_, names)| names.contains(&name)) {
                let what = format!("the name {name} has had too many meanings");
                let place = (path, rust::line_at(&code, at));
                findings.push(Finding::new(place, what, "name it by what it does or is"));
            }
        }
    }
    if findings.len() > WORN_MAX { findings } else { Vec::new() }
}

fn exempted<'a>(subject: &'a Subject, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let files = subject.tree.of_kind(kind);
    files.filter(|(path, _)| !EXEMPT.iter().any(|folder| path.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    #[test]
    fn vague_words_above_the_limit_are_found_outside_the_world_of_files() {
        let line = format!("// {}\n", VAGUE[0].to_uppercase());
        let text = line.repeat(SOURCE_LINES_MAX + 1);
        assert_eq!(vague(&files([("crates/a/src/lib.rs", &text)])).len(), 1);
        assert_eq!(vague(&files([("crates/a/src/lib.rs", &text[line.len()..])])), []);
        assert_eq!(vague(&files([("crates/local/src/lib.rs", &text)])), []);
        let text = line.repeat(DOCUMENT_LINES_MAX + 1);
        assert_eq!(vague(&files([("docs/a.md", &text)])).len(), 1);
    }

    #[test]
    fn worn_names_are_found_where_they_are_defined() {
        let text = "fn told() {}\nstruct Life;\nfn f(life: Life) { told() }\n// enum Order\n";
        let text = text.repeat(WORN_MAX / 2 + 1);
        let found = worn(&files([("crates/a/src/lib.rs", &text)]));
        assert_eq!(found.len(), WORN_MAX / 2 * 2 + 2);
        assert_eq!(found[1].line, 2);
    }
}
