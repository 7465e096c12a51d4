//! `usher provider host`: holds the lock of a node until SIGTERM.

use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use usher_agent::lock::Lock;

use usher_cli::error::CliError;
use usher_wire::chain;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Hold this lock while running
    #[arg(long, value_name = "FILE")]
    lock: PathBuf,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    match stand(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.print(),
    }
}

fn stand(flags: &Flags) -> Result<(), CliError> {
    let failed =
        |why: std::io::Error| CliError::failed(format!("failed to start the host process: {why}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(failed)?.block_on(async {
        // A supervisor may signal as soon as the lock is held: the handler is registered before.
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        let _lock = Lock::take(&flags.lock).map_err(|why| CliError::unavailable(chain(&why)))?;
        terminated.recv().await;
        Ok(())
    })
}
