//! The agent as a program of its own.

use std::process::ExitCode;

use clap::Parser;
use usher_agent::Flags;
use usher_agent::program;

#[derive(Parser)]
#[command(name = "usher-agent", version, about, long_about = None)]
struct Args {
    #[command(flatten)]
    flags: Flags,
}

fn main() -> ExitCode {
    let Args { flags } = Args::parse();
    program::run(&flags)
}
