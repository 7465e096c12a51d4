//! What the binary says about itself is a contract.

use std::io;
use std::process::Command;

/// What a run left behind: exit code, standard output, standard error.
type Left = (Option<i32>, String, String);

fn usher(args: &[&str]) -> io::Result<Left> {
    let output = Command::new(env!("CARGO_BIN_EXE_usher")).args(args).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((output.status.code(), text(&output.stdout), text(&output.stderr)))
}

#[test]
fn the_help_is_as_committed() {
    let (code, help, _) = usher(&["--help"]).unwrap();
    assert_eq!(code, Some(0));
    insta::assert_snapshot!("help", help);
}

#[test]
fn the_version_is_that_of_the_package() {
    let version = concat!("usher ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    assert_eq!(usher(&["--version"]).unwrap(), (Some(0), version, String::new()));
}

#[test]
fn wrong_usage_exits_with_2_and_says_so_on_the_error_stream() {
    for args in [&[][..], &["--frobnicate"], &["provision"]] {
        let (code, said, complained) = usher(args).unwrap();
        assert_eq!((code, said.as_str()), (Some(2), ""), "{args:?}");
        assert!(complained.contains("Usage: usher"), "{args:?}");
    }
}
