//! `usher failpoints`: every place where a process can be made to die.

use std::io::{self, Write as _};
use std::process::ExitCode;

use usher_provider::point::Point;

use crate::failpoint::Failpoint;

pub(super) fn run() -> ExitCode {
    let mut out = io::stdout().lock();
    let own = Failpoint::ALL.map(Failpoint::as_str);
    for point in own.into_iter().chain(Point::ALL.map(Point::as_str)) {
        if writeln!(out, "{point}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
