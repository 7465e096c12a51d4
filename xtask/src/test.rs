//! `test`: everything that gates quickly, with nothing but the toolchain.

use std::time::Instant;

use crate::failure::Outcome;
use crate::output;
use crate::parts::Parts;
use crate::programs::{self, Ran};
use crate::repo::Repo;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pass these words on to cargo test
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs every test of the workspace, also behind one that fails, and prints the failures last.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let mut parts = Parts::new("test");
    let mut words = vec!["--workspace"];
    words.extend(args.rest.iter().map(String::as_str));
    let begun = Instant::now();
    let programs = programs::build(repo, &words)?;
    parts.add("build", begun.elapsed(), "");
    let (ran, status) = programs::run(repo, &programs, &words, |line| output::say(line))?;
    for it in &ran {
        parts.add(&it.words, it.took, it.result.as_deref().unwrap_or("no result"));
    }
    let failed: Vec<&Ran> = ran.iter().filter(|it| !it.has_passed()).collect();
    parts.close(repo, &format!("{} programs, {} failed,", ran.len(), failed.len()));
    for repeat in failed.iter().flat_map(|it| it.repeats()) {
        output::complain(format_args!("failed: {repeat}"));
    }
    programs::verdict(&ran, status)
}
