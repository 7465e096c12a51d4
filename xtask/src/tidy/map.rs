//! The code map in ARCHITECTURE.md names every member, and nothing else.

use super::{Finding, Subject};

/// The document.
const FILE: &str = "ARCHITECTURE.md";
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
}
