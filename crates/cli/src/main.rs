//! The usher binary.

use clap::Parser;

/// Bring infrastructure in and show it out again: in order, completely, with a reason for every wait
#[derive(Parser)]
#[command(name = "usher", version, arg_required_else_help = true)]
struct Args {}

fn main() {
    let Args {} = Args::parse();
}
