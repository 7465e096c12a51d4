//! Test programs: how cargo builds and runs them, and what their output says.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::{Repo, shown};

/// What cargo says before it runs a program, and before it runs the examples of documents.
const RUNNING: &str = "Running ";
const DOC_TESTS: &str = "Doc-tests ";

/// The words that run one program alone, by the file name of its executable.
pub(crate) type Programs = BTreeMap<String, String>;

/// What one program did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// The words for cargo that run it alone.
    pub(crate) words: String,
    /// From its start to the start of the next.
    pub(crate) took: Duration,
    /// Its last word, such as `ok. 3 passed; …`; nothing if it died before.
    pub(crate) result: Option<String>,
    /// The names of the tests that failed.
    pub(crate) failed: Vec<String>,
}

impl Ran {
    /// Whether every test of it passed.
    pub(crate) fn has_passed(&self) -> bool {
        self.failed.is_empty() && self.result.as_ref().is_some_and(|it| it.starts_with("ok."))
    }

    /// What to type to run alone what failed, one line for each test.
    pub(crate) fn repeats(&self) -> Vec<String> {
        let alone = format!("cargo test {}", self.words);
        // An example of a document has a place for a name, which libtest does not take as one.
        if self.words.contains("--doc") || self.failed.is_empty() {
            let ended = if self.result.is_none() { "   # ended without a result" } else { "" };
            return vec![format!("{alone}{ended}")];
        }
        self.failed.iter().map(|test| format!("{alone} -- --exact {test}")).collect()
    }
}

/// Builds the test programs that these words choose.
pub(crate) fn build(repo: &Repo, words: &[&str]) -> Result<Programs, Failure> {
    let own: Vec<&str> = words.iter().copied().take_while(|word| *word != "--").collect();
    let format = ["--no-run", "--message-format", "json-render-diagnostics"];
    let args = [&["test"], own.as_slice(), &format].concat();
    output::say(format_args!(
        "$ {}",
        shown(&[&["test"], own.as_slice(), &["--no-run"]].concat(), &[])
    ));
    Ok(repo.printed(&args)?.lines().filter_map(program).collect())
}

/// The executable and the words of a line about something built.
fn program(line: &str) -> Option<(String, String)> {
    let built: Value = serde_json::from_str(line).ok()?;
    if built["reason"] != "compiler-artifact" || built["profile"]["test"] != true {
        return None;
    }
    let file = built["executable"].as_str()?.rsplit('/').next()?.to_owned();
    let name = built["target"]["name"].as_str()?;
    let which = match built["target"]["kind"][0].as_str()? {
        kind @ ("test" | "bin" | "bench" | "example") => format!("--{kind} {name}"),
        _ => "--lib".to_owned(),
    };
    Some((file, format!("--package {} {which}", package(built["package_id"].as_str()?)?)))
}

/// The name in `path+file:///r/crates/kernel#usher-kernel@0.1.0` or `…/xtask#0.1.0`.
fn package(id: &str) -> Option<&str> {
    let (path, rest) = id.split_once('#')?;
    match rest.split_once('@') {
        Some((name, _)) => Some(name),
        None => path.rsplit('/').next(),
    }
}

/// Runs the tests that these words choose, all of them, passing every line on to `each`.
pub(crate) fn run(
    repo: &Repo,
    programs: &Programs,
    words: &[&str],
    mut each: impl FnMut(&str),
) -> Result<(Vec<Ran>, ExitStatus), Failure> {
    let failed = |cause: io::Error| Failure::message(format!("cannot run cargo: {cause}"));
    let threads = threads().to_string();
    let env = [("RUST_TEST_THREADS", threads.as_str())];
    let args = [&["test", "--no-fail-fast"], words].concat();
    each(&format!("$ {}", shown(&args, &env)));
    // One pipe for both keeps cargo's own lines and those of the programs in their order.
    let (reader, writer) = io::pipe().map_err(failed)?;
    let mut cargo = repo.command(&args);
    cargo.envs(env).stdin(Stdio::null());
    cargo.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
    let mut child = cargo.spawn().map_err(failed)?;
    // The command holds the writing end: the pipe must end with the programs.
    drop(cargo);
    let mut reading = Reading::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line.map_err(failed)?).into_owned();
        each(&line);
        reading.line(programs, &line, Instant::now());
    }
    let status = child.wait().map_err(failed)?;
    Ok((reading.end(Instant::now()), status))
}

/// How many tests of one program run at a time: many of them wait for processes and databases, and
/// leave the machine to others meanwhile.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) * 3
}

/// Fails if a program did, or if cargo failed for another reason.
pub(crate) fn verdict(ran: &[Ran], status: ExitStatus) -> Outcome {
    if status.success() && ran.iter().all(Ran::has_passed) {
        return Ok(());
    }
    Err(Failure::Exit(status.code().and_then(|it| u8::try_from(it).ok()).unwrap_or(1).max(1)))
}

/// What the lines so far said.
#[derive(Default)]
struct Reading {
    ran: Vec<Ran>,
    since: Option<Instant>,
    /// Whether the lines are the names below `failures:`.
    in_failures: bool,
}

impl Reading {
    fn line(&mut self, programs: &Programs, line: &str, now: Instant) {
        if let Some(words) = started(programs, line) {
            self.stop(now);
            self.since = Some(now);
            self.ran.push(Ran { words, ..Ran::default() });
            return;
        }
        let Some(ran) = self.ran.last_mut() else { return };
        if let Some(result) = line.strip_prefix("test result: ") {
            ran.result = Some(result.to_owned());
            self.stop(now);
        } else if line == "failures:" {
            self.in_failures = true;
            return;
        } else if let (true, Some(name)) = (self.in_failures, line.strip_prefix("    ")) {
            ran.failed.push(name.to_owned());
            return;
        }
        self.in_failures = false;
    }

    fn stop(&mut self, now: Instant) {
        if let (Some(ran), Some(since)) = (self.ran.last_mut(), self.since.take()) {
            ran.took = now - since;
        }
    }

    fn end(mut self, now: Instant) -> Vec<Ran> {
        self.stop(now);
        self.ran
    }
}

/// The words of the program that cargo starts with this line.
fn started(programs: &Programs, line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(library) = line.strip_prefix(DOC_TESTS) {
        return Some(format!("--package {} --doc", library.trim().replace('_', "-")));
    }
    let (_, place) = line.strip_prefix(RUNNING)?.rsplit_once('(')?;
    let file = place.trim_end().strip_suffix(')')?.rsplit('/').next()?;
    Some(programs.get(file).cloned().unwrap_or_else(|| file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Programs {
        let lines = [
            r#"{"reason":"compiler-artifact",
                "package_id":"path+file:///r/crates/store#usher-store@0.1.0",
                "target":{"kind":["test"],"name":"store"},"profile":{"test":true},
                "executable":"/r/target/debug/deps/store-1a"}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///r/xtask#0.1.0",
                "target":{"kind":["bin"],"name":"xtask"},"profile":{"test":true},
                "executable":"/r/target/debug/deps/xtask-2b"}"#,
            r#"{"reason":"compiler-artifact",
                "package_id":"path+file:///r/crates/kernel#usher-kernel@0.1.0",
                "target":{"kind":["lib"],"name":"usher_kernel"},"profile":{"test":true},
                "executable":"/r/target/debug/deps/usher_kernel-3c"}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///r/xtask#0.1.0",
                "target":{"kind":["bin"],"name":"xtask"},"profile":{"test":false},
                "executable":"/r/target/debug/xtask"}"#,
            "   Compiling x",
        ];
        lines.into_iter().filter_map(program).collect()
    }

    fn read(text: &str) -> Vec<Ran> {
        let mut reading = Reading::default();
        let start = Instant::now();
        for (seconds, line) in (0..).zip(text.lines()) {
            reading.line(&programs(), line, start + Duration::from_secs(seconds));
        }
        reading.end(start + Duration::from_mins(1))
    }

    #[test]
    fn a_built_program_is_known_by_its_package_and_target() {
        let words: Vec<String> = programs().into_values().collect();
        let expected = [
            "--package usher-store --test store",
            "--package usher-kernel --lib",
            "--package xtask --bin xtask",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn failures_are_read_with_their_program_and_the_command_that_repeats_them() {
        let ran = read(
            "     Running tests/store/main.rs (target/debug/deps/store-1a)\n\
             test a::b ... FAILED\n\
             failures:\n\n\
             ---- a::b stdout ----\n    indented\n\n\
             failures:\n    a::b\n    c\n\n\
             test result: FAILED. 3 passed; 2 failed; finished in 0.1s\n\
             error: test failed, to rerun pass `-p usher-store --test store`\n   \
             Doc-tests usher_kernel\n\
             test result: ok. 1 passed; 0 failed",
        );
        assert_eq!(ran[0].failed, ["a::b", "c"]);
        assert_eq!(ran[0].took, Duration::from_secs(11));
        assert!(!ran[0].has_passed());
        let alone = "cargo test --package usher-store --test store -- --exact";
        assert_eq!(ran[0].repeats(), [format!("{alone} a::b"), format!("{alone} c")]);
        assert_eq!(ran[1].words, "--package usher-kernel --doc");
        assert!(ran[1].has_passed());
    }

    #[test]
    fn a_program_that_dies_without_a_result_has_failed() {
        let ran =
            read("     Running unittests src/lib.rs (target/debug/deps/usher_kernel-3c)\ntest a");
        assert!(!ran[0].has_passed());
        let alone = "cargo test --package usher-kernel --lib   # ended without a result";
        assert_eq!(ran[0].repeats(), [alone]);
        assert_eq!(ran[0].took, Duration::from_mins(1));
    }
}
