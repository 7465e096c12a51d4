//! `usher failpoints`: lists the failpoints.

use std::io::{self, Write as _};
use std::process::ExitCode;

use usher_failpoint::Failpoint;

pub(super) fn run() -> ExitCode {
    let mut out = io::stdout().lock();
    for point in Failpoint::ALL {
        if writeln!(out, "{point}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
