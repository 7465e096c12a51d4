//! `usher crds`: prints the definitions of Usher.

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use usher_cli::error::CliError;
use usher_cluster::crds;

pub(super) fn run() -> ExitCode {
    match print() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.print(),
    }
}

fn print() -> Result<(), CliError> {
    let yaml = crds::yaml();
    let yaml =
        yaml.map_err(|why| CliError::failed(format!("failed to render the definitions: {why}")))?;
    let mut out = io::stdout().lock();
    match out.write_all(yaml.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader closed the pipe, e.g. `head`.
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(why) => Err(CliError::failed(format!("failed to write to standard output: {why}"))),
    }
}
