//! `mutants`: cargo-mutants over the broker's rules, its misses held against a committed list.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::Repo;

/// What is broken.
const SOURCES: &str = "crates/domain/src/broker/**";
/// The misses that are accepted, each with its reason.
const ACCEPTED: &str = "docs/mutants.md";
/// Where that list begins in its document.
const HEADING: &str = "## List";
/// Where cargo-mutants writes, under the root.
const OUTPUT: &str = "target/mutants";
/// The version whose options and files this was written for.
const VERSION: &str = "27.1.0";
/// The share of all mutants that must be caught.
const CAUGHT_MIN_PERCENT: usize = 95;
/// Exit codes of a run that came to its end: all caught, some missed, some timed out.
const FINISHED: [i32; 3] = [0, 2, 3];

/// Which mutants to try.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Try one part of them, such as 0/4
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// Try those of this file only
    #[arg(long, value_name = "GLOB")]
    file: Option<String>,
    /// Pass these words on to cargo mutants
    #[arg(last = true)]
    rest: Vec<String>,
}

impl Args {
    fn is_whole(&self) -> bool {
        self.shard.is_none() && self.file.is_none() && self.rest.is_empty()
    }
}

/// Reasons by the mutant they excuse: one for each that may survive.
type Accepted<'a> = BTreeMap<String, Vec<&'a str>>;

/// What became of the mutants.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    caught: usize,
    missed: Vec<String>,
    timeout: usize,
    unviable: usize,
}

/// What a tally means.
#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    /// Misses that may survive, with their reasons.
    excused: Vec<String>,
    /// Why the run fails.
    wrong: Vec<String>,
}

/// Tries every mutant.
pub(crate) fn run_all(repo: &Repo) -> Outcome {
    run(repo, &Args::default())
}

/// Tries the mutants and checks the result.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    if !repo.has_subcommand("mutants") {
        repo.cargo(&["install", "cargo-mutants", "--locked", "--version", VERSION], &[])?;
    }
    fs::create_dir_all(repo.root().join(OUTPUT))
        .map_err(|cause| Failure::message(format!("cannot make \"{OUTPUT}\": {cause}")))?;
    let mut tally = pass(repo, args, Pass::Quick)?;
    if tally.is_open() {
        tally = tally.then(pass(repo, args, Pass::Whole)?);
    }
    let list = fs::read_to_string(repo.root().join(ACCEPTED))
        .map_err(|cause| Failure::message(format!("cannot read \"{ACCEPTED}\": {cause}")))?;
    output::say(tally.summary());
    let verdict = evaluate(&tally, accepted(&list)?, args.is_whole());
    for excused in verdict.excused {
        output::say(format_args!("accepted {excused}"));
    }
    if verdict.wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::message(format!("mutants: {}", verdict.wrong.join("\nmutants: "))))
}

/// The unit tests catch most mutants and build quickly; the tables see to what is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Quick,
    Whole,
}

fn pass(repo: &Repo, args: &Args, pass: Pass) -> Result<Tally, Failure> {
    let status = repo.cargo_status(&words(args, pass), &[])?;
    if !status.code().is_some_and(|code| FINISHED.contains(&code)) {
        return Err(Failure::message("mutants: cargo mutants did not come to its end"));
    }
    Tally::read(&repo.root().join(OUTPUT).join("mutants.out"))
}

fn words(args: &Args, pass: Pass) -> Vec<&str> {
    let file = args.file.as_deref().unwrap_or(SOURCES);
    let mut words = vec!["mutants", "--package", "usher-domain", "--file", file];
    words.extend(["--no-shuffle", "-j2", "--output", OUTPUT]);
    words.extend(["--minimum-test-timeout", "60", "--timeout-multiplier", "4"]);
    words.extend(match pass {
        Pass::Quick => ["--profile", "mutants-quick"].as_slice(),
        Pass::Whole => ["--profile", "mutants", "--iterate"].as_slice(),
    });
    if let Some(shard) = &args.shard {
        words.extend(["--shard", shard]);
    }
    words.extend(args.rest.iter().map(String::as_str));
    words.extend(match pass {
        Pass::Quick => ["--", "--lib"].as_slice(),
        Pass::Whole => ["--", "--lib", "--tests"].as_slice(),
    });
    words
}

impl Tally {
    fn read(folder: &Path) -> Result<Self, Failure> {
        let lines = |name: &str| -> Result<Vec<String>, Failure> {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).map_err(|cause| {
                Failure::message(format!("cannot read \"{}\": {cause}", path.display()))
            })?;
            Ok(text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
        };
        Ok(Self {
            caught: lines("caught.txt")?.len(),
            missed: lines("missed.txt")?,
            timeout: lines("timeout.txt")?.len(),
            unviable: lines("unviable.txt")?.len(),
        })
    }

    /// Whether some mutant was not caught yet.
    fn is_open(&self) -> bool {
        !self.missed.is_empty() || self.timeout > 0
    }

    /// The tally after another pass over what was not caught.
    fn then(self, next: Self) -> Self {
        Self { caught: self.caught + next.caught, unviable: self.unviable + next.unviable, ..next }
    }

    /// Those that compiled.
    fn viable(&self) -> usize {
        self.caught + self.missed.len() + self.timeout
    }

    fn summary(&self) -> String {
        let percent = (self.caught * 1_000).checked_div(self.viable()).unwrap_or(0);
        format!(
            "caught {}, missed {}, timeout {}, unviable {} ({}.{} % caught)",
            self.caught,
            self.missed.len(),
            self.timeout,
            self.unviable,
            percent / 10,
            percent % 10
        )
    }
}

/// Reads the list: a bullet under its heading names a mutant in backticks and says behind a dash
/// why it may survive.
fn accepted(list: &str) -> Result<Accepted<'_>, Failure> {
    let listed = list.lines().enumerate().skip_while(|(_, line)| *line != HEADING);
    let bullets = listed.filter(|(_, line)| line.starts_with("- `"));
    let mut accepted = Accepted::new();
    for (index, line) in bullets {
        let entry = line.strip_prefix("- `").and_then(|rest| rest.rsplit_once("` — "));
        match entry.map(|(mutant, reason)| (mutant, reason.trim())) {
            Some((mutant, reason)) if !reason.is_empty() => {
                accepted.entry(placeless(mutant)).or_default().push(reason);
            }
            _ => {
                let at = format!("{ACCEPTED}:{}", index + 1);
                return Err(Failure::message(format!("{at}: no reason behind the mutant")));
            }
        }
    }
    Ok(accepted)
}

/// The mutant without its line and column, which every edit above it would change.
fn placeless(mutant: &str) -> String {
    let Some((place, what)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {what}")
}

fn evaluate(tally: &Tally, mut accepted: Accepted<'_>, whole: bool) -> Verdict {
    let mut verdict = Verdict::default();
    if tally.viable() == 0 {
        verdict.wrong.push("no mutant was tried".to_owned());
    } else if whole && tally.caught * 100 < tally.viable() * CAUGHT_MIN_PERCENT {
        verdict.wrong.push(format!("fewer than {CAUGHT_MIN_PERCENT} % were caught"));
    }
    for missed in &tally.missed {
        match accepted.get_mut(&placeless(missed)).and_then(Vec::pop) {
            Some(reason) => verdict.excused.push(format!("{missed}: {reason}")),
            None => verdict.wrong.push(format!("not explained in {ACCEPTED}: {missed}")),
        }
    }
    let stale = accepted.iter().filter(|(_, reasons)| whole && !reasons.is_empty());
    let stale = stale.map(|(text, _)| format!("explained in {ACCEPTED} but not missed: {text}"));
    verdict.wrong.extend(stale);
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISS: &str = "crates/domain/src/broker/a.rs:12:5: replace wait -> bool with true";
    const LIST: &str = "# Mutants\n\n## List\n\n\
        - `crates/domain/src/broker/a.rs: replace wait -> bool with true` — same\n";

    fn tally(caught: usize, missed: &[&str]) -> Tally {
        let missed = missed.iter().map(|mutant| (*mutant).to_owned()).collect();
        Tally { caught, missed, timeout: 0, unviable: 1 }
    }

    fn verdict(tally: &Tally, list: &str, whole: bool) -> String {
        let wrong = evaluate(tally, accepted(list).unwrap(), whole).wrong;
        if wrong.is_empty() { "fine".to_owned() } else { wrong.join("\n") }
    }

    #[test]
    fn an_explained_miss_is_accepted_wherever_its_line_has_moved() {
        assert_eq!(verdict(&tally(99, &[MISS]), LIST, true), "fine");
        let moved = MISS.replace(":12:5", ":40:9");
        assert_eq!(verdict(&tally(99, &[&moved]), LIST, true), "fine");
    }

    // Requirement: H-15
    #[test]
    fn a_miss_without_an_explanation_fails() {
        assert!(verdict(&tally(99, &[MISS]), "# Mutants\n", true).contains("not explained"));
    }

    #[test]
    fn an_explanation_covers_one_miss_only() {
        let twin = MISS.replace(":12:5", ":40:9");
        assert!(verdict(&tally(99, &[MISS, &twin]), LIST, true).contains(":40:9"));
    }

    #[test]
    fn an_explanation_without_a_miss_fails_a_whole_run_only() {
        assert!(verdict(&tally(99, &[]), LIST, true).contains("but not missed"));
        assert_eq!(verdict(&tally(99, &[]), LIST, false), "fine");
    }

    // Requirement: H-15
    #[test]
    fn too_few_caught_fails_even_if_all_is_explained() {
        assert!(verdict(&tally(18, &[MISS]), LIST, true).contains("fewer than 95 %"));
        assert_eq!(verdict(&tally(19, &[MISS]), LIST, true), "fine");
        assert_eq!(verdict(&tally(1, &[MISS]), LIST, false), "fine", "a part has no share");
        assert!(verdict(&tally(0, &[]), "", true).contains("no mutant was tried"));
        let slow = Tally { timeout: 2, ..tally(19, &[]) };
        assert!(verdict(&slow, "", true).contains("fewer than 95 %"), "a timeout is not a catch");
    }

    #[test]
    fn a_second_pass_sees_to_what_the_first_one_left() {
        let first = tally(90, &[MISS, MISS]);
        assert!(first.is_open() && !tally(9, &[]).is_open());
        assert!(Tally { timeout: 1, ..tally(9, &[]) }.is_open());
        let both = first.then(Tally { timeout: 0, unviable: 2, ..tally(1, &[MISS]) });
        assert_eq!(both, Tally { unviable: 3, ..tally(91, &[MISS]) });
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        for line in ["- `a.rs: replace x`", "- `a.rs: replace x` — "] {
            assert!(accepted(&format!("## List\n{line}\n")).is_err(), "{line}");
            assert!(accepted(&format!("{line}\n## List\n")).unwrap().is_empty(), "an example");
        }
    }

    #[test]
    fn the_summary_counts_and_gives_the_share() {
        let text = tally(19, &[MISS]).summary();
        assert_eq!(text, "caught 19, missed 1, timeout 0, unviable 1 (95.0 % caught)");
        assert!(Tally::default().summary().ends_with("(0.0 % caught)"));
    }

    #[test]
    fn results_are_read_from_the_files_of_cargo_mutants() {
        let folder = std::env::temp_dir().join(format!("usher-mutants-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let files = [("caught", "a\nb\n"), ("missed", MISS), ("timeout", ""), ("unviable", "c\n")];
        for (name, text) in files {
            fs::write(folder.join(format!("{name}.txt")), text).unwrap();
        }
        let read = Tally::read(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read, Ok(tally(2, &[MISS])));
        assert!(Tally::read(&folder).is_err());
    }

    #[test]
    fn a_part_of_the_mutants_can_be_chosen() {
        let args = Args { shard: Some("0/4".into()), file: Some("a.rs".into()), rest: vec![] };
        for pass in [Pass::Quick, Pass::Whole] {
            let line = words(&args, pass).join(" ");
            assert!(line.contains("--file a.rs") && line.contains("--shard 0/4"), "{line}");
            assert_eq!(line.contains("--iterate"), pass == Pass::Whole, "{line}");
        }
        assert!(!args.is_whole() && Args::default().is_whole());
    }
}
