//! What the binary says about itself is a contract.

use std::process::{Command, Output};

fn usher(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_usher")).args(args).output().unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn the_help_is_as_committed() {
    let output = usher(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!("help", text(output.stdout));
}

#[test]
fn the_version_is_the_package_s() {
    let output = usher(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(output.stdout), concat!("usher ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn wrong_usage_exits_with_2_and_says_so_on_the_error_stream() {
    for args in [&[][..], &["--frobnicate"], &["provision"]] {
        let output = usher(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(output.stdout), "", "{args:?}");
        assert!(text(output.stderr).contains("Usage: usher"), "{args:?}");
    }
}
