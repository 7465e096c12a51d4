//! `usher provider host`: holds the lock of a node until it is told to end.

use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use usher_agent::lock::Lock;

use usher_cli::stop::Stop;
use usher_wire::chain;

/// Which lock.
#[derive(clap::Args)]
pub(super) struct Flags {
    /// Hold this lock while running
    #[arg(long, value_name = "FILE")]
    lock: PathBuf,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    match stand(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.tell(),
    }
}

fn stand(flags: &Flags) -> Result<(), Stop> {
    let failed = |why: std::io::Error| Stop::failed(format!("cannot start: {why}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(failed)?.block_on(async {
        // Whoever sees the lock may signal: the signal is listened to before.
        let mut told = signal(SignalKind::terminate()).map_err(failed)?;
        let _lock = Lock::take(&flags.lock).map_err(|why| Stop::unavailable(chain(&why)))?;
        told.recv().await;
        Ok(())
    })
}
