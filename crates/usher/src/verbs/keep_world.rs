//! `usher keep-world`: composes and supervises a local world, without a server.
//!
//! A world keeps running while its servers are down, and a crash of its keeper can be tested
//! alone.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use usher_local::composer::Agents;
use usher_local::keeper::Keeper;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// The directory of the world
    #[arg(value_name = "DIR")]
    world: PathBuf,
    /// Start this program as the agent [default: this one]
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Do not start agents
    #[arg(long, conflicts_with = "agent")]
    external: bool,
    /// Grace of an agent to exit
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    grace_ms: u64,
    /// Die at this failpoint: NAME or NAME:n
    #[arg(long, value_name = "NAME")]
    failpoint: Option<String>,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    if let Some(text) = &flags.failpoint {
        match usher_failpoint::arm(text) {
            Ok(armed) => eprintln!("usher: WARNING: this process will die at {}", armed.point),
            Err(why) => {
                eprintln!("usher: {why}");
                return ExitCode::from(2);
            }
        }
    }
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let kept = match built {
        Ok(runtime) => runtime.block_on(keep(flags)),
        Err(why) => Err(why.to_string()),
    };
    match kept {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("usher: {why}");
            ExitCode::from(5)
        }
    }
}

async fn keep(flags: Flags) -> Result<(), String> {
    let agents = agents(&flags)?;
    let keeper = Keeper::open(flags.world, agents).await.map_err(|why| why.to_string())?;
    let (stop, stopped) = oneshot::channel();
    let asked = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt)] = asked else {
        return Err("failed to register signal handlers".to_owned());
    };
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let _ = stop.send(());
    });
    keeper.run(stopped, |item, why| eprintln!("usher: {item:?}: {why}")).await;
    Ok(())
}

fn agents(flags: &Flags) -> Result<Agents, String> {
    if flags.external {
        return Ok(Agents::External);
    }
    let program = match &flags.agent {
        Some(program) => program.clone(),
        None => {
            std::env::current_exe().map_err(|why| format!("failed to find this program: {why}"))?
        }
    };
    Ok(Agents::Process { program, grace: Duration::from_millis(flags.grace_ms) })
}
