//! `usher up` and `usher serve`: the same server, with an embedded database or with PostgreSQL.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tracing_subscriber::EnvFilter;

use usher_cli::error::CliError;
use usher_server::config::{self, Config, Sources};
use usher_server::program::{Role, Server};
use usher_wire::{chain, data_dir};

use super::stop_of;

/// The installed name of this program.
const NAME: &str = "usher";

/// The crates that log at the configured level; the others log warnings only.
const LOGGED: [&str; 5] =
    ["usher_server", "usher_api", "usher_fleet", "usher_hosts", "usher_local"];

/// The flags of both commands.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Keep state in this directory [env: `USHER_DATA_DIR`]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Listen on this address [default: 127.0.0.1:7420]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Read settings from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one setting; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Print the effective settings and exit
    #[arg(long)]
    dump_config: bool,
}

pub(super) fn run(flags: &Flags, role: Role) -> ExitCode {
    match start(flags, role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.print(),
    }
}

fn start(flags: &Flags, role: Role) -> Result<(), CliError> {
    let config = Config::load(&sources(flags)?).map_err(|why| CliError::usage(chain(&why)))?;
    if flags.dump_config {
        return print(&config.dump());
    }
    telemetry(&config.log)?;
    arm(&config, role)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|why| CliError::failed(format!("failed to start the async runtime: {why}")))?;
    runtime.block_on(async {
        let data_dir = chosen_dir(&config)?;
        let server = Server::open(config, role, &data_dir).await.map_err(stop_of)?;
        if role == Role::Up {
            print(&welcome(&server))?;
        }
        server.run().await.map_err(stop_of)
    })
}

/// The sources of settings: file, environment, flags.
fn sources(flags: &Flags) -> Result<Sources, CliError> {
    let mut typed = Vec::new();
    if let Some(dir) = &flags.data_dir {
        typed.push(("data_dir".to_owned(), dir.display().to_string()));
    }
    if let Some(listen) = &flags.listen {
        typed.push(("listen".to_owned(), listen.clone()));
    }
    for text in &flags.settings {
        let Some((key, value)) = text.split_once('=') else {
            return Err(CliError::usage(format!("--set \"{text}\" is not KEY=VALUE")));
        };
        typed.push((key.to_owned(), value.to_owned()));
    }
    let keys = config::reference().into_iter().map(|(key, _)| config::variable_of(&key));
    let variables: BTreeMap<String, String> =
        keys.filter_map(|name| Some((name.clone(), config::variable(&name)?))).collect();
    Ok(Sources { file: flags.config.clone(), variables, typed })
}

/// The data directory: as configured, else the platform's default.
fn chosen_dir(config: &Config) -> Result<PathBuf, CliError> {
    if !config.data_dir.is_empty() {
        return Ok(PathBuf::from(&config.data_dir));
    }
    data_dir::standard(config::variable)
        .ok_or_else(|| CliError::usage("no data directory: give --data-dir or set USHER_DATA_DIR"))
}

fn telemetry(level: &str) -> Result<(), CliError> {
    let filter =
        EnvFilter::try_new(format!("warn{}", LOGGED.map(|it| format!(",{it}={level}")).concat()));
    let filter =
        filter.map_err(|_| CliError::usage(format!("log = \"{level}\" is not a level")))?;
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(filter);
    subscriber.try_init().map_err(|why| CliError::failed(why.to_string()))
}

/// Arms the failpoint of the environment, on loopback only.
fn arm(config: &Config, role: Role) -> Result<(), CliError> {
    let Some(text) = config::variable("USHER_FAILPOINT") else { return Ok(()) };
    let loopback = config.listen.parse::<std::net::SocketAddr>();
    let harmless = role == Role::Up || loopback.is_ok_and(|it| it.ip().is_loopback());
    if !harmless {
        return Err(CliError::usage(
            "USHER_FAILPOINT is accepted only with a loopback listen address",
        ));
    }
    usher_failpoint::arm(&text).map_err(|why| CliError::usage(why.to_string()))?;
    tracing::warn!("THIS PROCESS WILL DIE at {text}: USHER_FAILPOINT is set");
    Ok(())
}

/// The address of the server, and commands to try. They name no project, blueprint or credential:
/// the first start seeds one of each.
fn welcome(server: &Server) -> String {
    let (url, dir) = (server.url(), server.data_dir().display().to_string());
    let standard =
        data_dir::standard(config::variable).is_some_and(|it| it.display().to_string() == dir);
    let place = if standard { String::new() } else { format!("  export USHER_DATA_DIR='{dir}'\n") };
    let usher = this_program();
    format!(
        "usher is up at {url}, with its state in {dir}\n\n\
         Type in another terminal:\n\
         {place}\
         \x20 {usher} provision node-1 --wait\n\
         \x20 {usher} get nodes\n\
         \x20 {usher} why node-1\n\
         \x20 {usher} deprovision node-1 --wait\n"
    )
}

/// How to call this program: by name if it is on the PATH, else by its path.
fn this_program() -> String {
    let Ok(own) = std::env::current_exe() else { return NAME.to_owned() };
    let paths = config::variable("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|it| it.join(NAME)).find(|it| it.is_file());
    let found = found.and_then(|it| it.canonicalize().ok());
    if found.is_some() && found == own.canonicalize().ok() {
        return NAME.to_owned();
    }
    let here = std::env::current_dir().ok();
    let below = here.and_then(|it| own.strip_prefix(it).map(Path::to_path_buf).ok());
    below.unwrap_or(own).display().to_string()
}

fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|why| CliError::failed(format!("failed to write to standard output: {why}")))
}
