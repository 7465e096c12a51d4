//! Links that lead nowhere, and documents without exactly one title.

use crate::tree::is_kind;

use super::{Finding, Subject};

/// Finds links to files and headings that are not there.
pub(super) fn links(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in subject.tree.of_kind("md") {
        for (line, prose) in prose(text) {
            for target in targets(&prose).into_iter().filter(|target| !is_remote(target)) {
                if let Some(what) = broken(subject, path, &target) {
                    findings.push(Finding::new((path, line), what, "correct the link"));
                }
            }
        }
    }
    findings
}

/// Finds documents that do not begin with their only title.
pub(super) fn titles(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in subject.tree.of_kind("md") {
        let lines: Vec<(usize, String)> = prose(text);
        let titles: Vec<usize> =
            lines.iter().filter(|(_, l)| l.starts_with("# ")).map(|(n, _)| *n).collect();
        let first = text.lines().position(|line| !line.trim().is_empty()).map_or(1, |at| at + 1);
        match titles.as_slice() {
            [] => findings.push(Finding::new((path, 1), "no title", "begin it with \"# …\"")),
            [title] if *title == first => {}
            [title] => {
                let what = "the title is not the first line";
                findings.push(Finding::new((path, *title), what, "move it to the top"));
            }
            [_, second, ..] => {
                let what = "a second title";
                findings.push(Finding::new((path, *second), what, "make it a \"## …\""));
            }
        }
    }
    findings
}

/// The lines outside fenced code, inline code blanked.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let parts = line.split('`').enumerate();
            let kept = parts.map(|(part, text)| if part % 2 == 0 { text } else { "code" });
            lines.push((index + 1, kept.collect()));
        }
    }
    lines
}

fn targets(line: &str) -> Vec<String> {
    let inline = line.match_indices("](").filter_map(|(at, _)| {
        let rest = &line[at + 2..];
        rest.find(')').map(|end| rest[..end].trim().to_owned())
    });
    let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = defined.map(|(_, target)| target.trim().to_owned());
    inline.chain(defined).collect()
}

fn is_remote(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

fn broken(subject: &Subject, from: &str, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { from.to_owned() } else { resolve(from, file) };
    if !subject.tree.has(&path) {
        return Some(format!("the link leads to {path}, which is not there"));
    }
    let text = subject.tree.get(&path).unwrap_or_default();
    let known = anchor.is_empty() || !is_kind(&path, "md") || anchors(text).any(|a| a == anchor);
    (!known).then(|| format!("{path} has no heading #{anchor}"))
}

fn resolve(from: &str, file: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors that readers of Markdown derive from headings.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    fn dead(text: &str) -> usize {
        let other = ("docs/glossary.md", "# Glossary\n\n## The ledger's rows\n");
        links(&files([("docs/adr/0001.md", text), other, ("LICENSE", "x")])).len()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        let texts = [
            "[g](../glossary.md)",
            "[g](../glossary.md#the-ledgers-rows)",
            "[l](../../LICENSE) and [docs](../)",
            "# Here\n[h](#here)",
            "[x](https://example.com/none)",
            "`[x](none.md)`",
            "```\n[x](none.md)\n```",
            "[g]: ../glossary.md",
        ];
        for text in texts {
            assert_eq!(dead(text), 0, "{text}");
        }
    }

    // Requirement: H-9
    #[test]
    fn links_that_lead_nowhere_are_found() {
        let texts = [
            "[g](glossary.md)",
            "[g](../glossary.md#no-such)",
            "a [x](../glossary.md) b [y](none.md)",
            "[h](#none)",
            "[g]: none.md",
        ];
        for text in texts {
            assert_eq!(dead(text), 1, "{text}");
        }
    }

    #[test]
    fn a_document_has_one_title_and_begins_with_it() {
        let count = |text: &str| titles(&files([("a.md", text)])).len();
        assert_eq!(count("# One\n\n## Two\n\n```sh\n# a comment\n```\n"), 0);
        for text in ["", "## Two\n", "x\n\n# Late\n", "# One\n\n# Two\n"] {
            assert_eq!(count(text), 1, "{text:?}");
        }
    }
}
