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

/// How many tests of one program run at a time: many of them wait for processes and databases, and
/// leave the machine to others meanwhile.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) * 3
}

/// Runs `cargo test` over the whole workspace.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let start = Instant::now();
    let mut words = vec!["test", "--workspace"];
    words.extend(args.rest.iter().map(String::as_str));
    let threads = threads().to_string();
    repo.cargo(&words, &[("RUST_TEST_THREADS", &threads)])?;
    output::say(format_args!("test: passed in {:.1} s", start.elapsed().as_secs_f64()));
    Ok(())
}
