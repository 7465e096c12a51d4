//! `test`: everything that gates quickly, with nothing but the toolchain.

use std::time::Instant;

use crate::failure::Outcome;
use crate::output;
use crate::repo::Repo;

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pass these words on to cargo test
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs `cargo test` over the whole workspace.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let start = Instant::now();
    let mut words = vec!["test", "--workspace"];
    words.extend(args.rest.iter().map(String::as_str));
    repo.cargo(&words, &[])?;
    output::say(format_args!("test: passed in {:.1} s", start.elapsed().as_secs_f64()));
    Ok(())
}
