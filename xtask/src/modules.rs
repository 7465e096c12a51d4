//! Which files the modules of a crate are made of.

use std::collections::BTreeSet;

use crate::rust;
use crate::tree::Tree;

/// Which modules are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Every one.
    All,
    /// Those that are compiled without `#[cfg(test)]`.
    Product,
}

/// The files of these targets: each target's own, and all that their modules name.
pub(crate) fn files<'a>(
    tree: &Tree,
    targets: impl IntoIterator<Item = &'a String>,
    which: Follow,
) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    for target in targets {
        follow(tree, (target, true), which, &mut reached);
    }
    reached
}

/// Marks a file and all it declares.
fn follow(
    tree: &Tree,
    (path, is_root): (&str, bool),
    which: Follow,
    reached: &mut BTreeSet<String>,
) {
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
        if declared.is_test && which == Follow::Product {
            continue;
        }
        let inside = [&[base.as_str()], declared.inside.as_slice()].concat().join("/");
        let candidates = match declared.path {
            Some(path) => vec![normal(&format!("{folder}/{path}"))],
            None => ["", "/mod"].map(|end| format!("{inside}/{}{end}.rs", declared.name)).into(),
        };
        for candidate in candidates {
            follow(tree, (&candidate, false), which, reached);
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
    /// Whether it, or a module around it, is compiled for tests only.
    is_test: bool,
}

/// An inline module, and where it ends.
struct Around<'a> {
    name: &'a str,
    end: usize,
    is_test: bool,
}

fn declarations<'a>(source: &'a str, code: &'a str) -> Vec<Declaration<'a>> {
    let words: Vec<(usize, &str)> = rust::words(code).collect();
    let mut declarations = Vec::new();
    let mut around: Vec<Around<'_>> = Vec::new();
    for pair in words.windows(2) {
        let [(at, "mod"), (start, name)] = *pair else { continue };
        around.retain(|it| it.end > at);
        let after = start + name.len();
        let next = code[after..].trim_start();
        let attributes = code[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        let is_test = code[attributes..at].contains("#[cfg(test)]")
            || around.last().is_some_and(|it| it.is_test);
        if next.starts_with('{') {
            let end = rust::closing(code, code.len() - next.len());
            around.push(Around { name, end, is_test });
        } else if next.starts_with(';') {
            let inside = around.iter().map(|it| it.name).collect();
            let path = path_among(source, code, (attributes, at));
            declarations.push(Declaration { name, inside, path, is_test });
        }
    }
    declarations
}

/// The text of a `#[path = "…"]` between two offsets.
fn path_among<'a>(source: &'a str, code: &str, (from, to): (usize, usize)) -> Option<&'a str> {
    let found = code[from..to].find("path = \"")?;
    rust::literals(source, code, from + found, to).first().map(|(_, path)| *path)
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
