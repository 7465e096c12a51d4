//! The help texts are a contract.

use std::fmt::Write as _;
use std::io;
use std::process::Command;

/// The result of a run: exit code, standard output, standard error.
type Left = (Option<i32>, String, String);

fn usher(args: &[&str]) -> io::Result<Left> {
    let output = Command::new(env!("CARGO_BIN_EXE_usher")).args(args).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
}

// Requirement: D-12
#[test]
fn the_help_is_as_committed() {
    let (code, help, _) = usher(&["--help"]).unwrap();
    assert_eq!(code, Some(0));
    insta::assert_snapshot!("help", help);
}

/// Every command that calls a server, with its subcommands.
const VERBS: [&str; 45] = [
    "provision",
    "deprovision",
    "get",
    "why",
    "plan",
    "plan deprovision",
    "receipt",
    "events",
    "retry",
    "abandon",
    "orphans",
    "project",
    "project create",
    "project delete",
    "placement",
    "placement create",
    "placement terminate",
    "blueprint",
    "blueprint import",
    "blueprint publish",
    "blueprint delete",
    "cloud",
    "cloud create",
    "cloud delete",
    "credential",
    "credential create",
    "credential revoke",
    "credential request",
    "credential approve",
    "credential unassign",
    "key",
    "key show",
    "key rotate",
    "label",
    "label get",
    "label set",
    "label define",
    "label definitions",
    "token",
    "token create",
    "token list",
    "token revoke",
    "apiserver",
    "completions",
    "crds",
];

// Requirement: D-11
#[test]
fn the_help_of_every_verb_is_as_committed() {
    let mut helps = String::new();
    for verb in VERBS {
        let words: Vec<&str> = verb.split(' ').chain(["--help"]).collect();
        let (code, help, _) = usher(&words).unwrap();
        assert_eq!(code, Some(0), "{verb}");
        writeln!(helps, "$ usher {verb} --help\n{help}").unwrap();
    }
    insta::assert_snapshot!("verbs", helps);
}

// Requirement: KR-1
#[test]
fn the_printed_definitions_are_as_committed() {
    let (code, yaml, complained) = usher(&["crds"]).unwrap();
    assert_eq!((code, complained.as_str()), (Some(0), ""));
    // A change of one raises the version in all of them, which older programs leave alone then.
    insta::assert_snapshot!("crds", yaml);
}

// Requirement: D-12
#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("usher ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    assert_eq!(usher(&["--version"]).unwrap(), (Some(0), version, String::new()));
}

// Requirement: D-12
#[test]
fn wrong_usage_exits_with_2_and_says_so_on_the_error_stream() {
    for args in [&[][..], &["--frobnicate"], &["provision"]] {
        let (code, said, complained) = usher(args).unwrap();
        assert_eq!((code, said.as_str()), (Some(2), ""), "{args:?}");
        assert!(complained.contains("Usage: usher"), "{args:?}");
    }
}
