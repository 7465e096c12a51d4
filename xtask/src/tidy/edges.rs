//! Which crate may import which, and what the pure crates may import from outside.

use crate::repo::{Member, Need};

use super::{Finding, Subject, line_of};

/// A crate and those of ours it may import.
struct Edge {
    folder: &'static str,
    may: &'static [&'static str],
    /// In tests also these.
    dev: &'static [&'static str],
}

const fn edge(
    folder: &'static str,
    may: &'static [&'static str],
    dev: &'static [&'static str],
) -> Edge {
    Edge { folder, may, dev }
}

/// Every crate there is or will be.
const EDGES: [Edge; 21] = [
    edge("kernel", &[], &[]),
    edge("domain", &["kernel"], &[]),
    edge("wire", &[], &[]),
    edge("failpoint", &[], &[]),
    edge("listen", &[], &[]),
    edge("pgtest", &[], &[]),
    edge("store", &["kernel", "domain"], &["sim", "pgtest"]),
    edge("cluster", &["kernel", "domain"], &["sim", "apiserver"]),
    edge("clouds", &["kernel", "domain"], &[]),
    edge("apiserver", &["listen"], &[]),
    edge("provider", &["kernel", "wire", "failpoint"], &[]),
    edge("api", &["kernel", "domain", "wire", "listen"], &["sim"]),
    edge("agent", &["wire"], &[]),
    edge("fleet", &["kernel", "domain", "wire", "store", "failpoint"], &["pgtest"]),
    edge("hosts", &["kernel", "wire", "agent", "provider", "failpoint"], &[]),
    edge("local", &["kernel", "domain", "hosts", "failpoint"], &[]),
    edge("sim", &["kernel", "domain"], &[]),
    edge(
        "server",
        &[
            "kernel",
            "domain",
            "wire",
            "store",
            "cluster",
            "clouds",
            "apiserver",
            "provider",
            "api",
            "listen",
            "fleet",
            "hosts",
            "local",
            "failpoint",
        ],
        &["sim", "pgtest"],
    ),
    edge("cli", &["kernel", "wire", "agent"], &[]),
    edge(
        "usher",
        &[
            "cli",
            "server",
            "cluster",
            "agent",
            "provider",
            "hosts",
            "local",
            "apiserver",
            "wire",
            "failpoint",
        ],
        &["kernel", "domain", "api", "store", "sim", "pgtest"],
    ),
    edge("xtask", &[], &[]),
];

/// A pure crate and what it may import from outside.
struct Allowed {
    folder: &'static str,
    may: &'static [&'static str],
    dev: &'static [&'static str],
}

/// The pure crates. A runtime, a clock or a random source in this list would undo their purity.
const PURE: [Allowed; 2] = [
    Allowed { folder: "kernel", may: &["serde", "thiserror"], dev: &["proptest"] },
    Allowed {
        folder: "domain",
        may: &[
            "serde",
            "serde_json",
            "thiserror",
            "uuid",
            "hkdf",
            "hmac",
            "sha2",
            "subtle",
            "base64",
        ],
        dev: &["proptest", "insta", "serde-saphyr", "trybuild"],
    },
];

/// Every import between our crates is in the table, and every member is.
pub(super) fn edges(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &subject.members {
        let short = short(&member.name);
        let Some(edge) = EDGES.iter().find(|edge| edge.folder == short && fits(member, short))
        else {
            let what = format!(
                "package {} in {} is not in the table of crates",
                member.name, member.folder
            );
            findings.push(at(
                subject,
                member,
                "name",
                what,
                "add it to the table in tidy, or rename it",
            ));
            continue;
        };
        for need in member.needs.iter().filter(|need| is_ours(&need.name)) {
            let wanted = self::short(&need.name);
            let allowed = edge.may.contains(&wanted) || need.dev && edge.dev.contains(&wanted);
            if !allowed {
                let kind = if need.dev { " in tests" } else { "" };
                let what = format!("{short} may not import {wanted}{kind}");
                findings.push(at(subject, member, &need.name, what, "turn the dependency round"));
            }
        }
    }
    findings
}

/// The pure crates import nothing from outside but what is listed.
pub(super) fn dependencies(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &subject.members {
        let short = short(&member.name);
        let Some(pure) = PURE.iter().find(|pure| pure.folder == short) else { continue };
        let foreign = member.needs.iter().filter(|need| !is_ours(&need.name));
        for need in foreign.filter(|need| !is_allowed(pure, need)) {
            let kind = if need.dev { " in tests" } else { "" };
            let what = format!("{short} is pure and may not depend on {}{kind}", need.name);
            let remedy = "move the code to an adapter, or argue for it in a decision record";
            findings.push(at(subject, member, &need.name, what, remedy));
        }
    }
    findings
}

fn is_allowed(pure: &Allowed, need: &Need) -> bool {
    let name = need.name.as_str();
    pure.may.contains(&name) || need.dev && pure.dev.contains(&name)
}

fn short(name: &str) -> &str {
    name.strip_prefix("usher-").unwrap_or(name)
}

fn is_ours(name: &str) -> bool {
    name.starts_with("usher-") || name == "xtask" || name == "usher"
}

fn fits(member: &Member, short: &str) -> bool {
    let (folder, name) = match short {
        "xtask" => ("xtask".to_owned(), "xtask".to_owned()),
        "usher" => ("crates/usher".to_owned(), "usher".to_owned()),
        short => (format!("crates/{short}"), format!("usher-{short}")),
    };
    member.folder == folder && member.name == name
}

fn at(subject: &Subject, member: &Member, part: &str, what: String, remedy: &str) -> Finding {
    let file = format!("{}/Cargo.toml", member.folder);
    let line = subject.tree.get(&file).map_or(1, |text| line_of(text, part));
    Finding::new((&file, line), what, remedy)
}

#[cfg(test)]
mod tests {
    use crate::tree::Tree;

    use super::*;

    fn subject(folder: &str, needs: &[(&str, bool)]) -> Subject {
        let name = folder.strip_prefix("crates/").map(|short| format!("usher-{short}"));
        let needs = needs.iter().map(|(name, dev)| Need { name: (*name).into(), dev: *dev });
        let member = Member {
            name: name.unwrap_or_else(|| folder.to_owned()),
            folder: folder.to_owned(),
            needs: needs.collect(),
            targets: Vec::new(),
        };
        let manifest = "[package]\nname = \"x\"\n[dependencies]\nusher-sim.workspace = true\n";
        let path = format!("{folder}/Cargo.toml");
        Subject { tree: Tree::from([(path.as_str(), manifest)]), members: vec![member] }
    }

    #[test]
    fn edges_of_the_table_are_allowed() {
        let cases = [
            ("crates/domain", "usher-kernel", false),
            ("crates/store", "usher-sim", true),
            ("crates/store", "usher-pgtest", true),
            ("crates/cluster", "usher-apiserver", true),
            ("crates/server", "usher-fleet", false),
            ("crates/server", "usher-sim", true),
            ("xtask", "clap", false),
        ];
        for (folder, need, dev) in cases {
            assert_eq!(edges(&subject(folder, &[(need, dev)])), [], "{folder} {need}");
        }
    }

    // Requirement: H-1
    #[test]
    fn edges_outside_the_table_are_found() {
        let cases = [
            ("crates/kernel", "usher-domain", false),
            ("crates/kernel", "usher-sim", true),
            ("crates/store", "usher-sim", false),
            ("crates/store", "usher-pgtest", false),
            ("crates/store", "usher-cluster", false),
            ("crates/cli", "usher-server", false),
            ("crates/cli", "usher-store", false),
            ("crates/server", "usher-cli", false),
            ("crates/server", "usher-sim", false),
            ("crates/fleet", "usher-local", false),
            ("crates/local", "usher-fleet", false),
            ("crates/apiserver", "usher-kernel", true),
            ("xtask", "usher-kernel", false),
        ];
        for (folder, need, dev) in cases {
            assert_eq!(edges(&subject(folder, &[(need, dev)])).len(), 1, "{folder} {need}");
        }
        let found = edges(&subject("crates/store", &[("usher-sim", false)]));
        assert_eq!((found[0].line, found[0].what.as_str()), (4, "store may not import sim"));
    }

    #[test]
    fn a_crate_that_the_table_does_not_know_is_found() {
        assert_eq!(edges(&subject("crates/engine", &[])).len(), 1);
        let mut moved = subject("crates/store", &[]);
        moved.members[0].folder = "crates/db".to_owned();
        assert_eq!(edges(&moved).len(), 1);
    }

    // Requirement: H-2
    #[test]
    fn a_pure_crate_depends_on_nothing_unlisted() {
        for need in [("tokio", false), ("rand", true), ("proptest", false)] {
            assert_eq!(dependencies(&subject("crates/kernel", &[need])).len(), 1, "{need:?}");
        }
        for need in [("serde", false), ("serde", true), ("proptest", true)] {
            assert_eq!(dependencies(&subject("crates/kernel", &[need])), [], "{need:?}");
        }
        assert_eq!(dependencies(&subject("crates/domain", &[("tracing", false)])).len(), 1);
        assert_eq!(dependencies(&subject("crates/cli", &[("tokio", false)])), []);
    }
}
