//! A provider with the fake backend, for trying out shards and for crash tests.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser as _;
use usher_provider::program::{Flags, run_fake};

/// Serve a provider without real machines
#[derive(clap::Parser)]
#[command(name = "usher-provider-fake", version)]
struct Args {
    #[command(flatten)]
    flags: Flags,
    /// Exit at this failpoint: NAME or NAME:n
    #[arg(long, value_name = "NAME")]
    failpoint: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Args { flags, failpoint } = Args::parse();
    if let Some(text) = failpoint {
        match usher_failpoint::arm(&text) {
            Ok(it) => {
                eprintln!("usher-provider-fake: WARNING: this process will exit at {}", it.point);
            }
            Err(why) => {
                eprintln!("usher-provider-fake: {why}");
                return ExitCode::from(2);
            }
        }
    }
    // The process id separates two processes that start in the same nanosecond.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let nonce = u64::try_from(since.as_nanos() & u128::from(u64::MAX)).unwrap_or_default();
    let options = flags.options(nonce ^ u64::from(std::process::id()) << 32);
    let stop = async { _ = tokio::signal::ctrl_c().await };
    match run_fake(&flags, options, stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let source = std::error::Error::source(&why).map(|it| format!(": {it}"));
            eprintln!("usher-provider-fake: {why}{}", source.unwrap_or_default());
            ExitCode::from(if why.is_usage() { 2 } else { 5 })
        }
    }
}
