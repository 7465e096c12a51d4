//! Clippy reads the nearest `clippy.toml` and no other, so a crate's own must repeat the root's.

use super::{Finding, Subject};

/// The bans of every crate.
const ROOT: &str = "clippy.toml";
/// The pure crates must have a file of their own.
const PURE: [&str; 2] = ["crates/kernel/clippy.toml", "crates/domain/clippy.toml"];

/// Finds bans and settings of the root that a crate's own file forgot.
pub(super) fn bans(subject: &Subject) -> Vec<Finding> {
    let Some(root) = subject.tree.get(ROOT) else {
        return vec![Finding::new((ROOT, 1), "the root has no bans", "add the file")];
    };
    let mut findings: Vec<Finding> = PURE
        .iter()
        .filter(|path| !subject.tree.has(path))
        .map(|path| Finding::new((path, 1), "a pure crate without bans of its own", "add the file"))
        .collect();
    let own = subject.tree.under("crates/").filter(|(path, _)| path.ends_with("/clippy.toml"));
    for (path, text) in own {
        let repeated = entries(text);
        for (list, entry) in entries(root).into_iter().filter(|entry| !repeated.contains(entry)) {
            let what = format!("{list}{entry} of the root is missing");
            findings.push(Finding::new((path, 1), what, "repeat it here: clippy does not merge"));
        }
    }
    findings
}

/// Banned paths with their list, and settings as written.
fn entries(text: &str) -> Vec<(String, String)> {
    let mut list = String::new();
    let mut entries = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some((name, "[")) = line.split_once(" = ") {
            list = format!("{name} ");
        } else if let Some((_, rest)) = line.split_once("path = \"") {
            let path = rest.split('"').next().unwrap_or(rest);
            entries.push((list.clone(), path.to_owned()));
        } else if line.contains(" = ") {
            entries.push((String::new(), line.to_owned()));
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::files;

    const BANS: &str = "too-many-lines-threshold = 70\ndisallowed-methods = [\n  \
        { path = \"std::env::var\", reason = \"settings are read in one place\" },\n]\n";

    fn found(own: &str) -> Vec<String> {
        let subject = files([(ROOT, BANS), (PURE[0], own), (PURE[1], BANS)]);
        bans(&subject).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_file_that_repeats_and_adds_is_fine() {
        let more = format!("{BANS}disallowed-types = [\n  {{ path = \"std::x\" }},\n]\n");
        assert_eq!(found(&more), Vec::<String>::new());
        let reworded = BANS.replace("one place", "the Config");
        assert_eq!(found(&reworded), Vec::<String>::new());
    }

    // Requirement: H-6
    #[test]
    fn a_forgotten_ban_or_setting_is_found() {
        let forgotten = BANS.replace("std::env::var", "std::env::vars");
        assert_eq!(found(&forgotten), ["disallowed-methods std::env::var of the root is missing"]);
        let changed = BANS.replace("70", "700");
        assert_eq!(found(&changed), ["too-many-lines-threshold = 70 of the root is missing"]);
        let moved = BANS.replace("disallowed-methods", "disallowed-types");
        assert_eq!(found(&moved).len(), 1, "a ban in another list is no ban");
    }

    #[test]
    fn a_pure_crate_without_its_own_file_is_found() {
        assert_eq!(bans(&files([(ROOT, BANS), (PURE[0], BANS)])).len(), 1);
        assert_eq!(bans(&files([])).len(), 1);
    }
}
