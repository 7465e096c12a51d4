//! `usher provider local`: offers hosts on this machine, or fake ones.

use std::path::PathBuf;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;
use usher_provider::kit::Options;
use usher_provider::program;

use usher_cli::environment::variable;
use usher_cli::error::CliError;
use usher_hosts::{Hosts, Settings};
use usher_wire::{chain, data_dir};

#[derive(clap::Args)]
#[group(id = "local")]
pub(super) struct Flags {
    #[command(flatten)]
    provider: program::Flags,
    /// Keep hosts in this directory [default: below the data directory]
    #[arg(long, value_name = "DIR")]
    hosts: Option<PathBuf>,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    match start(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.print(),
    }
}

fn start(flags: &Flags) -> Result<(), CliError> {
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(EnvFilter::new("warn,usher_hosts=info,usher_provider=info"));
    subscriber.try_init().map_err(|why| CliError::failed(why.to_string()))?;
    arm(flags)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|why| CliError::failed(format!("failed to start the async runtime: {why}")))?;
    let (_, nonce) = uuid::Uuid::new_v4().as_u64_pair();
    let options = flags.provider.options(nonce);
    let ended = runtime.block_on(serve(flags, options))?;
    ended.map_err(|why| {
        let text = chain(&why);
        if why.is_usage() { CliError::usage(text) } else { CliError::unavailable(text) }
    })
}

async fn serve(
    flags: &Flags,
    mut options: Options,
) -> Result<Result<(), program::Error>, CliError> {
    let asked = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt)] = asked else {
        return Err(CliError::failed("failed to register signal handlers"));
    };
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    if flags.provider.use_fake_backend {
        return Ok(program::run_fake(&flags.provider, options, stop).await);
    }
    let root = root(flags)?;
    let failed = |why: std::io::Error| {
        CliError::unavailable(format!("failed to open the directory of the hosts: {why}"))
    };
    let settings = Settings {
        root: root.clone(),
        provider: flags.provider.provider.clone(),
        slots: flags.provider.seed_count,
        program: std::env::current_exe().map_err(failed)?,
    };
    let hosts = Hosts::open(settings).map_err(failed)?;
    // Hosts outlive this process, so their state must be persisted, too.
    options.state.get_or_insert_with(|| root.join("state"));
    Ok(program::run(hosts, &flags.provider, options, stop).await)
}

fn root(flags: &Flags) -> Result<PathBuf, CliError> {
    if let Some(root) = &flags.hosts {
        return Ok(root.clone());
    }
    let standard = variable(data_dir::VARIABLE).map(PathBuf::from);
    let standard = standard.or_else(|| data_dir::standard(variable));
    let below = standard.map(|it| it.join("provider").join(&flags.provider.provider));
    below.ok_or_else(|| CliError::usage("no directory for hosts: give --hosts"))
}

/// Arms the failpoint of the environment, on loopback only.
fn arm(flags: &Flags) -> Result<(), CliError> {
    let Some(text) = variable("USHER_FAILPOINT") else { return Ok(()) };
    if !flags.provider.addr.ip().is_loopback() {
        return Err(CliError::usage("USHER_FAILPOINT is accepted only with a loopback --addr"));
    }
    usher_failpoint::arm(&text).map_err(|why| CliError::usage(why.to_string()))?;
    tracing::warn!("THIS PROCESS WILL DIE at {text}: USHER_FAILPOINT is set");
    Ok(())
}
