//! Every refusal code has a page, and every page a code.
//!
//! A code is what a variant equals in an enum that is declared as `coded!`, or a text in the body
//! of a function `code` that answers `&'static str`.

use std::collections::BTreeMap;

use crate::rust;
use crate::tree::is_kind;

use super::{Finding, Subject};

/// Where refusals are.
const SOURCES: [&str; 3] = ["crates/domain/src/", "crates/store/src/", "crates/api/src/"];
/// Where their pages are.
const PAGES: &str = "docs/codes/";
/// The page that lists the others.
const INDEX: &str = "README";
/// What begins an enum whose variants equal their codes.
const CODED: &str = "coded! {";

/// Compares codes with pages.
pub(super) fn codes(subject: &Subject) -> Vec<Finding> {
    let codes = collect(subject);
    let mut findings = Vec::new();
    for (code, (file, line)) in &codes {
        if !code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            let what = format!("the code \"{code}\" is not in snake_case");
            findings.push(Finding::new((file, *line), what, "write it in snake_case"));
        } else if subject.tree.get(&format!("{PAGES}{code}.md")).is_none() {
            let what = format!("the code \"{code}\" has no page");
            findings.push(Finding::new((file, *line), what, format!("write {PAGES}{code}.md")));
        }
    }
    for (path, _) in subject.tree.under(PAGES) {
        let name = path.trim_start_matches(PAGES).trim_end_matches(".md");
        if name != INDEX && !codes.contains_key(name) {
            let what = "no refusal has this code";
            findings.push(Finding::new((path, 1), what, "delete the page, or rename it"));
        }
    }
    findings
}

fn collect(subject: &Subject) -> BTreeMap<&str, (&str, usize)> {
    let mut codes = BTreeMap::new();
    let files = SOURCES.iter().flat_map(|folder| subject.tree.under(folder));
    for (path, text) in files.filter(|(path, _)| is_kind(path, "rs")) {
        let code = rust::code_only(text);
        let mut add = |place: usize, literal| {
            codes.entry(literal).or_insert((path, rust::line_at(&code, place)));
        };
        for (at, _) in code.match_indices(CODED) {
            let open = at + CODED.len() - 1;
            let literals = rust::literals(text, &code, open, rust::closing(&code, open));
            let equals = |place: usize| code[..place].trim_end().ends_with('=');
            literals.into_iter().filter(|it| equals(it.0)).for_each(|it| add(it.0, it.1));
        }
        for (at, _) in code.match_indices("fn code(") {
            let Some(open) = code[at..].find('{').map(|skip| at + skip) else { continue };
            if !code[at..open].trim_end().ends_with("-> &'static str") {
                continue;
            }
            let end = rust::closing(&code, open);
            for (place, literal) in rust::literals(text, &code, open, end) {
                add(place, literal);
            }
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    const SOURCE: &str = "impl Refusal {
        /// The code.
        pub const fn code(&self) -> &'static str {
            match self {
                Self::NameTaken { .. } => \"name_taken\",
                Self::Parameter(inner) => inner.code(),
            }
        }
        fn decode(&self) -> &'static str { \"not_a_code\" }
        fn code(&self) -> u16 { f(\"nor_this\") }
    }";
    const PATH: &str = "crates/domain/src/broker/refusal.rs";
    const PAGE: &str = "docs/codes/name_taken.md";

    #[test]
    fn a_code_with_its_page_is_fine() {
        let index = "docs/codes/README.md";
        assert_eq!(codes(&files([(PATH, SOURCE), (PAGE, "# x"), (index, "# x")])), []);
    }

    // Requirement: H-5
    #[test]
    fn a_code_without_a_page_is_found() {
        let found = codes(&files([(PATH, SOURCE)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "the code \"name_taken\" has no page");
        assert_eq!((found[0].file.as_str(), found[0].line), (PATH, 5));
    }

    // Requirement: H-5
    #[test]
    fn a_code_beside_its_variant_needs_a_page_too() {
        let source = "coded! {
            pub enum Refusal {
                #[error(\"name {0} is taken\")]
                NameTaken(String) = \"name_taken\",
                Parameter(#[from] Inner) = (inner => inner.code()),
            }
        }";
        assert_eq!(codes(&files([(PATH, source), (PAGE, "# x")])), []);
        let found = codes(&files([(PATH, source)]));
        let found: Vec<_> = found.iter().map(|it| (it.what.as_str(), it.line)).collect();
        assert_eq!(found, [("the code \"name_taken\" has no page", 4)]);
    }

    // Requirement: H-5
    #[test]
    fn a_page_without_a_code_is_found() {
        let found = codes(&files([(PATH, SOURCE), (PAGE, "# x"), ("docs/codes/old.md", "# x")]));
        assert_eq!((found.len(), found[0].file.as_str()), (1, "docs/codes/old.md"));
    }

    #[test]
    fn a_code_in_another_case_is_found() {
        let found = codes(&files([(PATH, &SOURCE.replace("name_taken", "NameTaken"))]));
        assert_eq!(found.len(), 1);
    }
}
