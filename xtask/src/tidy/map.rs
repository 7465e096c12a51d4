//! The code map in ARCHITECTURE.md names every member, and nothing else; every path that the
//! documents of the root quote exists.

use super::{Finding, Subject};

/// The document.
const FILE: &str = "ARCHITECTURE.md";
/// The documents whose quoted paths must exist.
const DOCUMENTS: [&str; 3] = [FILE, "README.md", "CONTRIBUTING.md"];
/// What a quoted path begins with.
const FOLDERS: [&str; 3] = ["crates/", "docs/", "xtask/"];
/// The heading of the map; an entry is a heading below it with the folder in backticks.
const HEADING: &str = "## Code map";

/// Compares the map with the members.
pub(super) fn map(subject: &Subject) -> Vec<Finding> {
    let entries = entries(subject.tree.get(FILE).unwrap_or_default());
    let folders: Vec<&str> = subject.members.iter().map(|m| m.folder.as_str()).collect();
    let missing = folders.iter().filter(|folder| !entries.iter().any(|(_, e)| e == *folder));
    let missing = missing.map(|folder| {
        let what = format!("the code map lacks {folder}");
        Finding::new((FILE, 1), what, format!("add a heading \"### `{folder}`\""))
    });
    let invented = entries.iter().filter(|(_, entry)| !folders.contains(entry));
    let invented = invented.map(|(line, entry)| {
        let what = format!("the code map names {entry}, which is no member");
        Finding::new((FILE, *line), what, "remove the entry")
    });
    missing.chain(invented).collect()
}

/// Finds quoted paths that lead nowhere.
pub(super) fn paths(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in DOCUMENTS {
        for (index, line) in subject.tree.get(file).unwrap_or_default().lines().enumerate() {
            let quoted = line.split('`').skip(1).step_by(2);
            let dead = quoted.filter(|it| is_path(it) && !subject.tree.has(it));
            findings.extend(dead.map(|it| {
                let what = format!("`{it}` is not there");
                Finding::new((file, index + 1), what, "correct the path")
            }));
        }
    }
    findings
}

fn is_path(quoted: &str) -> bool {
    FOLDERS.iter().any(|it| quoted.starts_with(it)) && !quoted.contains(' ')
}

fn entries(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
    lines
        .take_while(|(_, line)| !line.starts_with("## "))
        .filter_map(|(index, line)| {
            let entry = line.strip_prefix("### `")?.split('`').next()?;
            Some((index + 1, entry))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Member;
    use crate::tree::Tree;

    fn found(map: &str) -> Vec<String> {
        let member = |folder: &str| Member { folder: folder.into(), ..Member::default() };
        let subject = Subject {
            tree: Tree::from([(FILE, map)]),
            members: ["crates/kernel", "xtask"].map(member).into(),
        };
        super::map(&subject).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_map_that_names_every_member_is_fine() {
        let map = "# A\n\n## Code map\n\n### `crates/kernel`\n\nx\n\n### `xtask`\n\n## Next\n";
        assert_eq!(found(map), Vec::<String>::new());
    }

    // Requirement: H-8
    #[test]
    fn a_map_that_lacks_or_invents_a_member_is_found() {
        let map = "# A\n\n## Code map\n\n### `crates/kernel`\n\n### `crates/ghost`\n";
        let ghost = "the code map names crates/ghost, which is no member";
        assert_eq!(found(map), ["the code map lacks xtask", ghost]);
        assert_eq!(found("# A\n").len(), 2, "no map at all");
    }

    // Requirement: H-8
    #[test]
    fn a_quoted_path_that_is_not_there_is_found() {
        let found = |text: &str| {
            let files = [(FILE, text), ("crates/a/src/lib.rs", ""), ("docs/adr/0001.md", "")];
            paths(&Subject { tree: Tree::from(files), ..Subject::default() }).len()
        };
        let sound =
            ["`crates/a/src/lib.rs` `crates/a/src`", "`docs/adr/`", "crates/b", "`cargo x`"];
        for text in sound {
            assert_eq!(found(text), 0, "{text}");
        }
        for text in ["a `crates/a/src/main.rs`", "`docs/adr` and `docs/none`"] {
            assert_eq!(found(text), 1, "{text}");
        }
    }
}
