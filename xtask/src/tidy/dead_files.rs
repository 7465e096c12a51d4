//! Rust files that no `mod` names are never compiled, and cargo says nothing about them.

use std::collections::BTreeSet;

use crate::modules::{self, Follow};
use crate::rust;
use crate::tree::{Tree, is_kind};

use super::{Finding, Subject};

/// Where cargo looks for targets.
const FOLDERS: [&str; 4] = ["src/", "tests/", "benches/", "examples/"];

/// Finds every Rust file of a member that none of its targets reaches.
pub(super) fn dead_files(subject: &Subject) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for member in &subject.members {
        let files = modules::files(&subject.tree, &member.targets, Follow::All);
        let named = files.iter().flat_map(|it| named_in_texts(&subject.tree, it, &member.folder));
        reached.extend(named);
        reached.extend(files);
    }
    let members = subject.members.iter();
    let folders = members.flat_map(|m| FOLDERS.map(|folder| format!("{}/{folder}", m.folder)));
    folders
        .flat_map(|folder| {
            let files = subject.tree.under(&folder).map(|(path, _)| path.to_owned());
            files.collect::<Vec<_>>()
        })
        .filter(|path| is_kind(path, "rs") && !reached.contains(path))
        .map(|path| {
            Finding::new(
                (&path, 1),
                "no `mod` names this file",
                "name it in its parent, or delete it",
            )
        })
        .collect()
}

/// Files that a test names in a text, such as `tests/ui/*.rs`: a compile test reads those itself.
fn named_in_texts(tree: &Tree, path: &str, member: &str) -> Vec<String> {
    let Some(text) = tree.get(path) else { return Vec::new() };
    let code = rust::code_only(text);
    let texts = rust::literals(text, &code, 0, code.len());
    let mut named = Vec::new();
    for pattern in
        texts.into_iter().map(|(_, text)| text).filter(|t| is_kind(t, "rs") && t.contains('/'))
    {
        let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
        let prefix = format!("{member}/{before}");
        let matching = tree.under(&prefix).map(|(path, _)| path).filter(|path| {
            let rest = &path[prefix.len()..];
            rest.ends_with(after) && !rest.contains('/')
        });
        named.extend(matching.map(str::to_owned));
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::Member;

    fn dead<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
        let targets = ["m/src/lib.rs", "m/tests/it.rs"].map(str::to_owned).into();
        let member = Member { folder: "m".into(), targets, ..Member::default() };
        let subject = Subject { tree: Tree::from(files), members: vec![member] };
        dead_files(&subject).into_iter().map(|finding| finding.file).collect()
    }

    // Requirement: H-4
    #[test]
    fn a_file_that_no_mod_names_is_found() {
        let found = dead([
            ("m/src/lib.rs", "mod a; // mod b;\nconst S: &str = \"mod c;\";"),
            ("m/src/a/mod.rs", "mod inner;"),
            ("m/src/a/inner.rs", ""),
            ("m/src/b.rs", ""),
            ("m/src/c.rs", ""),
            ("m/src/inner.rs", ""),
            ("m/tests/it.rs", ""),
            ("m/tests/parts/lost.rs", ""),
        ]);
        assert_eq!(found, ["m/src/b.rs", "m/src/c.rs", "m/src/inner.rs", "m/tests/parts/lost.rs"]);
    }

    #[test]
    fn every_way_to_name_a_file_is_followed() {
        let found = dead([
            (
                "m/src/lib.rs",
                "pub(crate) mod a;\n#[path = \"odd/x.rs\"]\nmod y;\nmod in_ { mod d; }",
            ),
            ("m/src/a.rs", "#[cfg(test)]\nmod tests;"),
            ("m/src/a/tests.rs", ""),
            ("m/src/odd/x.rs", ""),
            ("m/src/in_/d.rs", ""),
            ("m/tests/it.rs", "fn t() { cases.compile_fail(\"tests/ui/*.rs\"); }"),
            ("m/tests/ui/secret.rs", ""),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
