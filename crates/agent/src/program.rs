//! An agent with its runtime, signals and exit code: what `usher-agent` and `usher agent` do.

use std::future::pending;
use std::process::ExitCode;

use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::pace::Pace;
use crate::{Ending, Flags};

/// Runs an agent until it ends; the outcome goes to stderr.
pub fn run(flags: &Flags) -> ExitCode {
    let built = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(why) => {
            eprintln!("usher agent: failed to start the runtime: {why}");
            return ExitCode::from(5);
        }
    };
    match runtime.block_on(async { crate::run(flags, Pace::default(), stopped()).await }) {
        Ok(Ending::Left) => {
            eprintln!("usher agent: the node left");
            ExitCode::SUCCESS
        }
        Ok(Ending::Stopped) => {
            eprintln!("usher agent: stopped");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("usher agent: {}", why.chain());
            ExitCode::from(why.exit_code())
        }
    }
}

/// Becomes true when the process is asked to end.
fn stopped() -> watch::Receiver<bool> {
    let (sender, stop) = watch::channel(false);
    tokio::spawn(async move {
        let asked = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let [Ok(mut terminate), Ok(mut interrupt)] = asked else {
            // Without handlers a signal ends the process at once.
            return pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = sender.send(true);
    });
    stop
}
