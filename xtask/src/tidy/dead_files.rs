//! Rust files that no `mod` names are never compiled, and cargo says nothing about them.

use std::collections::BTreeSet;

use crate::rust;
use crate::tree::{Tree, is_kind};

use super::{Finding, Subject};

/// Where cargo looks for targets.
const FOLDERS: [&str; 4] = ["src/", "tests/", "benches/", "examples/"];

/// Finds every Rust file of a member that none of its targets reaches.
pub(super) fn dead_files(subject: &Subject) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for member in &subject.members {
        for target in &member.targets {
            follow(&subject.tree, target, true, &mut reached);
        }
        let named: Vec<String> = reached
            .iter()
            .filter(|path| path.starts_with(&format!("{}/", member.folder)))
            .flat_map(|path| named_in_texts(&subject.tree, path, &member.folder))
            .collect();
        reached.extend(named);
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

/// Marks a file and all it declares.
fn follow(tree: &Tree, path: &str, is_root: bool, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.get(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let base = if is_root || file == "mod.rs" {
        folder.to_owned()
    } else {
        format!("{folder}/{}", file.trim_end_matches(".rs"))
    };
    let code = rust::code_only(text);
    for declared in declarations(text, &code) {
        let inside = [&[base.as_str()], declared.inside.as_slice()].concat().join("/");
        let candidates = match declared.path {
            Some(path) => vec![normal(&format!("{folder}/{path}"))],
            None => ["", "/mod"].map(|end| format!("{inside}/{}{end}.rs", declared.name)).into(),
        };
        for candidate in candidates {
            follow(tree, &candidate, false, reached);
        }
    }
}

/// A `mod name;`.
struct Declaration<'a> {
    name: &'a str,
    /// The inline modules around it.
    inside: Vec<&'a str>,
    /// What `#[path]` says.
    path: Option<&'a str>,
}

fn declarations<'a>(source: &'a str, code: &'a str) -> Vec<Declaration<'a>> {
    let words: Vec<(usize, &str)> = rust::words(code).collect();
    let mut declarations = Vec::new();
    let mut around: Vec<(&str, usize)> = Vec::new();
    for pair in words.windows(2) {
        let [(at, "mod"), (start, name)] = *pair else { continue };
        around.retain(|(_, end)| *end > at);
        let after = start + name.len();
        let next = code[after..].trim_start();
        if next.starts_with('{') {
            let open = code.len() - next.len();
            around.push((name, rust::closing(code, open)));
        } else if next.starts_with(';') {
            let inside = around.iter().map(|(name, _)| *name).collect();
            declarations.push(Declaration { name, inside, path: path_before(source, code, at) });
        }
    }
    declarations
}

/// The text of a `#[path = "…"]` among the attributes of the item at an offset.
fn path_before<'a>(source: &'a str, code: &str, at: usize) -> Option<&'a str> {
    let start = code[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
    let found = code[start..at].find("path = \"")?;
    rust::literals(source, code, start + found, at).first().map(|(_, path)| *path)
}

/// The path without `..` and `.`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
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
