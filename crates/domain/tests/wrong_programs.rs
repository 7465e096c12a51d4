//! Programs that must not compile: the deletion path cannot see a spec or the cluster, and nothing
//! is released without proof.

use std::path::Path;

// Requirement: I-11
#[test]
fn a_wrong_program_does_not_compile() {
    let programs = trybuild::TestCases::new();
    programs.compile_fail("tests/wrong_programs/*.rs");
}

// Requirement: I-11
#[test]
fn every_wrong_program_says_what_stops_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong_programs");
    let files: Vec<_> = folder.read_dir().unwrap().map(|it| it.unwrap().path()).collect();
    let count =
        |kind| files.iter().filter(|it| it.extension().is_some_and(|it| it == kind)).count();
    assert_eq!(count("rs"), 13, "one for each way around");
    assert_eq!(count("stderr"), 13, "each with the compiler's own words");
}
