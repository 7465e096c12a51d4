//! `loaded`: tests beside busy loops, many times, to find those that depend on the machine's pace.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::programs::{self, Programs, Ran};
use crate::repo::Repo;

/// What to run, how often, and beside how much.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the tests this many times
    #[arg(long, value_name = "N", default_value_t = 30)]
    runs: u32,
    /// Keep this many threads busy beside them
    #[arg(long, value_name = "N", default_value_t = 4)]
    loops: u32,
    /// Choose the tests as for cargo test: --workspace, or --package usher-store --test store
    #[arg(last = true, required = true)]
    words: Vec<String>,
}

/// Builds the tests, then runs them again and again under load, and counts what failed.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let programs = programs::build(repo, &words)?;
    let mut failures: BTreeMap<String, u32> = BTreeMap::new();
    let stop = AtomicBool::new(false);
    let failed_runs = thread::scope(|scope| {
        for _ in 0..args.loops {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let counted = (1..=args.runs).map(|run| once(repo, &programs, &words, (run, args.runs)));
        let counted = counted.map(|failed| {
            let failed = failed?;
            let has_failed = u32::from(!failed.is_empty());
            for repeat in failed {
                *failures.entry(repeat).or_default() += 1;
            }
            Ok(has_failed)
        });
        let counted: Result<u32, Failure> = counted.sum();
        stop.store(true, Ordering::Relaxed);
        counted
    })?;
    let passed = args.runs - failed_runs;
    output::say(format_args!(
        "loaded: {} runs beside {} busy loops: {passed} passed, {failed_runs} failed",
        args.runs, args.loops
    ));
    for (repeat, times) in &failures {
        output::say(format_args!("   failed {times} times: {repeat}"));
    }
    if failed_runs == 0 { Ok(()) } else { Err(Failure::Exit(1)) }
}

/// Runs the tests once and answers how to repeat what failed; only a failed run is printed.
fn once(
    repo: &Repo,
    programs: &Programs,
    words: &[&str],
    (run, runs): (u32, u32),
) -> Result<Vec<String>, Failure> {
    let begun = Instant::now();
    let mut lines = Vec::new();
    let (ran, status) = programs::run(repo, programs, words, |line| lines.push(line.to_owned()))?;
    let mut failed: Vec<String> =
        ran.iter().filter(|it| !it.has_passed()).flat_map(Ran::repeats).collect();
    if failed.is_empty() && programs::verdict(&ran, status).is_err() {
        failed.push("cargo itself".to_owned());
    }
    if !failed.is_empty() {
        lines.iter().for_each(output::say);
    }
    let end = if failed.is_empty() { "passed" } else { "failed" };
    let took = begun.elapsed().as_secs_f64();
    let count = ran.len();
    output::say(format_args!("run {run}/{runs}: {count} programs {end} in {took:.1} s"));
    Ok(failed)
}
