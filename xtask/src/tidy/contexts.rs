//! No context of `domain` imports another, and those with rules have the same files.

use std::collections::BTreeSet;

use crate::rust;
use crate::tree::is_kind;

use super::{Finding, Subject};

/// Where the contexts are.
const SOURCES: &str = "crates/domain/src/";
/// What every context may import: the vocabulary they share.
const SHARED: [&str; 2] = ["object", "blueprint"];

/// What a reader finds in every context that has rules.
const FILES: [&str; 14] = [
    "accept",
    "aggregate",
    "command",
    "effect",
    "event",
    "facts",
    "reconciler",
    "snapshot",
    "observe",
    "phase",
    "reason",
    "reconcile",
    "refusal",
    "verdict",
];

/// Finds every context with rules that lacks one of its files.
pub(super) fn files_of_a_context(subject: &Subject) -> Vec<Finding> {
    let contexts: BTreeSet<&str> = sources(subject).map(|(path, _)| module(path)).collect();
    let mut findings = Vec::new();
    for context in contexts {
        let has = |file: &str| {
            let stem = format!("{SOURCES}{context}/{file}");
            [format!("{stem}.rs"), format!("{stem}/mod.rs")].iter().any(|it| subject.tree.has(it))
        };
        for file in FILES.iter().filter(|file| has("reconcile") && !has(file)) {
            findings.push(Finding::new(
                (&format!("{SOURCES}{context}/mod.rs"), 1),
                format!("context {context} has no {file}.rs"),
                "put there what the other contexts have under that name",
            ));
        }
    }
    findings
}

/// Finds every path from one context into another, tests included.
pub(super) fn contexts(subject: &Subject) -> Vec<Finding> {
    let modules: BTreeSet<&str> = sources(subject).map(|(path, _)| module(path)).collect();
    let mut findings = Vec::new();
    for (path, text) in sources(subject).filter(|(path, _)| !is_root(path)) {
        let code = rust::code_only(text);
        let own = module(path);
        for (offset, other) in reached(&code, path) {
            let folder = format!("{SOURCES}{own}/{other}");
            // A name reached by `super` may be a part of the context itself.
            let own_part = code[..offset].ends_with("super::")
                && (subject.tree.has(&folder) || subject.tree.has(&format!("{folder}.rs")));
            let is_context = modules.contains(other) && !SHARED.contains(&other) && other != own;
            if is_context && !own_part {
                findings.push(Finding::new(
                    (path, rust::line_at(&code, offset)),
                    format!("context {own} imports context {other}"),
                    "name what it needs as a view of its own and know the other by id only",
                ));
            }
        }
    }
    findings
}

fn sources(subject: &Subject) -> impl Iterator<Item = (&str, &str)> {
    subject.tree.under(SOURCES).filter(|(path, _)| is_kind(path, "rs"))
}

fn is_root(path: &str) -> bool {
    matches!(path.strip_prefix(SOURCES), Some("lib.rs" | "main.rs"))
}

/// The first part of a path in the crate: the context a file belongs to.
fn module(path: &str) -> &str {
    let inside = path.strip_prefix(SOURCES).unwrap_or(path);
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

/// Names of top-level modules that this code reaches, with their offsets.
fn reached<'a>(code: &'a str, path: &str) -> Vec<(usize, &'a str)> {
    let mut names: Vec<(usize, &str)> = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if !code[..at].ends_with(rust::is_word) && !code[..at].ends_with('$') {
            names.extend(heads(code, at + "crate::".len()));
        }
    }
    let depth = depth(path);
    let mut rest = 0;
    while let Some(found) = code[rest..].find("super::") {
        let start = rest + found;
        let count = code[start..].split("super::").take_while(|part| part.is_empty()).count();
        rest = start + count * "super::".len();
        if count >= depth {
            names.extend(heads(code, rest));
        }
    }
    names
}

/// How many `super` lead from a file's module to the root.
fn depth(path: &str) -> usize {
    let inside = path.strip_prefix(SOURCES).unwrap_or(path);
    let parts = inside.split('/').count();
    if inside.ends_with("/mod.rs") { parts - 1 } else { parts }
}

/// The name at an offset, or the first name of each branch of a group.
fn heads(code: &str, at: usize) -> Vec<(usize, &str)> {
    let word = |at: usize| rust::words(&code[at..]).next().map(|(skip, word)| (at + skip, word));
    if !code[at..].starts_with('{') {
        return word(at).into_iter().collect();
    }
    let end = rust::closing(code, at);
    let mut starts = vec![at + 1];
    let mut inner = 0_usize;
    for (offset, byte) in code.bytes().enumerate().take(end - 1).skip(at + 1) {
        match byte {
            b'{' => inner += 1,
            b'}' => inner = inner.saturating_sub(1),
            b',' if inner == 0 => starts.push(offset + 1),
            _ => {}
        }
    }
    starts.into_iter().filter_map(word).filter(|(offset, _)| *offset < end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let subject = files([
            (path, text),
            ("crates/domain/src/lib.rs", "pub mod broker; use crate::tokens::T;"),
            ("crates/domain/src/broker/mod.rs", "mod peers;"),
            ("crates/domain/src/broker/peers.rs", ""),
            ("crates/domain/src/tokens.rs", ""),
            ("crates/domain/src/peers/mod.rs", ""),
            ("crates/domain/src/object/mod.rs", ""),
            ("crates/domain/src/blueprint.rs", ""),
        ]);
        contexts(&subject).into_iter().map(|finding| (finding.line, finding.what)).collect()
    }

    // Requirement: H-18
    #[test]
    fn a_context_with_rules_has_every_file() {
        let mut paths: Vec<String> =
            FILES.iter().map(|it| format!("{SOURCES}fleet/{it}.rs")).collect();
        paths.push(format!("{SOURCES}tokens.rs"));
        paths.retain(|path| !path.ends_with("/snapshot.rs") && !path.ends_with("/reconciler.rs"));
        paths.push(format!("{SOURCES}fleet/reconciler/mod.rs"));
        let whats = |paths: &[String]| -> Vec<String> {
            let files = paths.iter().map(|it| (it.as_str(), ""));
            let subject = Subject { tree: files.collect(), members: Vec::new() };
            files_of_a_context(&subject).into_iter().map(|it| it.what).collect()
        };
        assert_eq!(whats(&paths), ["context fleet has no snapshot.rs"]);
        paths.retain(|path| !path.ends_with("/reconcile.rs"));
        assert!(whats(&paths).is_empty(), "a context without rules may have any files");
    }

    // Requirement: H-3
    #[test]
    fn a_path_into_another_context_is_found() {
        let path = "crates/domain/src/broker/reconcile.rs";
        let texts = [
            "use crate::tokens::Token;",
            "use crate::{object::id, tokens};",
            "use crate::{object::{id, name}, tokens::{A, B}};",
            "fn f() { crate::tokens::mint() }",
            "use super::super::tokens;",
            "#[cfg(test)]\nmod tests { use crate::tokens::T; }",
        ];
        for text in texts {
            let found = found(path, text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].1, "context broker imports context tokens");
        }
        let shared = found("crates/domain/src/object/id.rs", "use crate::broker::Phase;");
        assert_eq!(shared.len(), 1, "the shared vocabulary knows no context");
    }

    #[test]
    fn its_own_parts_and_the_shared_vocabulary_are_no_findings() {
        let path = "crates/domain/src/broker/reconcile.rs";
        let texts = [
            "use crate::object::id::ResourceId;",
            "use crate::{blueprint::Schema, broker::Phase};",
            "use super::peers;",
            "#[cfg(test)]\nmod tests { use super::super::peers; }",
            "use usher_kernel::identity; // crate::tokens",
            "macro_rules! m { () => { $crate::tokens::x() } }",
        ];
        for text in texts {
            assert_eq!(found(path, text), [], "{text}");
        }
    }

    #[test]
    fn the_finding_names_the_line() {
        let found = found("crates/domain/src/labels/mod.rs", "\nuse super::tokens::T;\n");
        assert_eq!(found, [(2, "context labels imports context tokens".to_owned())]);
    }
}
