//! The `usher` binary: the composition root.
//!
//! **Invariants**
//! - No decision is made here: the rules are in the domain.

mod verbs;

use std::process::ExitCode;

use clap::Parser as _;
use verbs::Args;

fn main() -> ExitCode {
    Args::parse().verb.run()
}
