//! The one place that writes to the terminal.

use std::fmt::Display;
use std::io::{self, Write};

/// Says one line to the person.
pub(crate) fn say(line: impl Display) {
    // A reader that went away is no reason to stop the work.
    let _gone = writeln!(io::stdout(), "{line}");
}

/// Says what went wrong.
pub(crate) fn complain(line: impl Display) {
    let _gone = writeln!(io::stderr(), "{line}");
}
