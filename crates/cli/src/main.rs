//! The `usher` binary: the place where parts are joined.
//!
//! **Invariants**
//! - Nothing is decided here: rules stand in the domain.

use std::process::ExitCode;

use clap::Parser;
use usher_cli::verbs::Verb;

/// Bring infrastructure in and show it out again
///
/// In order, completely, and with a reason for every wait
#[derive(Parser)]
#[command(name = "usher", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

fn main() -> ExitCode {
    let Args { verb } = Args::parse();
    verb.run()
}
