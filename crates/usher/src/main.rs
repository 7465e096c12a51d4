//! The `usher` binary: the place where parts are joined.
//!
//! **Invariants**
//! - Nothing is decided here: rules stand in the domain.

mod verbs;

use std::process::ExitCode;

use clap::Parser as _;
use verbs::Args;

fn main() -> ExitCode {
    Args::parse().verb.run()
}
