//! `usher apiserver`: the embedded Kubernetes API server alone.

mod faults;

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use usher_apiserver::{ApiServer, StartError};
use usher_cli::error::CliError;
use usher_wire::chain;

use faults::Rules;

/// The address of a server that keeps its data, and so its kubeconfig.
const KEPT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7443);
/// The address of a server in memory: any free port.
const FREE_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

const EXAMPLES: &str = "\
Examples:
  usher apiserver                            # in memory, for one test run
  usher apiserver --data-dir ./cluster       # the same address and kubeconfig at every start
  usher apiserver --faults faults.toml       # refuse, delay and break what the file says

  KUBECONFIG=cluster/kubeconfig kubectl apply -f crds/

The first line of output is \"usher apiserver is ready at URL, kubeconfig FILE\".";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// Keep objects, certificates, tokens and the kubeconfig in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "in_memory")]
    data_dir: Option<PathBuf>,
    /// Keep nothing after the end; so it is without --data-dir
    #[arg(long)]
    in_memory: bool,
    /// Listen on this address [default: 127.0.0.1:7443, in memory any free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Inject the faults that this file declares
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    match start(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.print(),
    }
}

fn start(flags: &Flags) -> Result<(), CliError> {
    let rules = flags.faults.as_deref().map(faults::read).transpose();
    let rules = rules.map_err(CliError::usage)?;
    let subscriber = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(EnvFilter::new("warn"));
    subscriber.try_init().map_err(|why| CliError::failed(why.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|why| CliError::failed(format!("failed to start the async runtime: {why}")))?;
    runtime.block_on(serve(flags, rules))
}

async fn serve(flags: &Flags, rules: Option<Rules>) -> Result<(), CliError> {
    let asked = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(terminate), Ok(interrupt)] = asked else {
        return Err(CliError::failed("failed to register signal handlers"));
    };
    let folder = Folder::open(flags.data_dir.as_deref())?;
    let mut builder = ApiServer::builder();
    let mut address = flags.listen.unwrap_or(FREE_ADDRESS);
    if let Folder::Kept(path) = &folder {
        builder = builder.file(path.join("objects.redb")).credentials(path.join("credentials"));
        address = flags.listen.unwrap_or(KEPT_ADDRESS);
    }
    let opened = builder.build().await;
    let server = opened.map_err(|why| refused(&why, &folder, address))?;
    if let Some(rules) = rules {
        server.set_faults(move |request| rules.fault(request));
    }
    let bound = server.serve(address).await.map_err(|why| refused(&why, &folder, address))?;
    let kubeconfig = folder.path().join("kubeconfig");
    let written = write_private(&kubeconfig, &server.kubeconfig().unwrap_or_default());
    written.map_err(|why| unwritable(&kubeconfig, &why))?;
    print(&format!(
        "usher apiserver is ready at https://{bound}, kubeconfig {}\n",
        kubeconfig.display()
    ))?;
    ended(terminate, interrupt).await;
    server.shutdown().await;
    folder.close()
}

/// Waits for SIGTERM or SIGINT.
async fn ended(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// The directory of the server.
enum Folder {
    Kept(PathBuf),
    /// Holds the kubeconfig, and is removed at the end.
    Temporary(TempDir),
}

impl Folder {
    fn open(kept: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = kept else {
            let made = tempfile::Builder::new()
                .prefix("usher-apiserver-")
                .permissions(Permissions::from_mode(0o700))
                .tempdir();
            let made = made.map_err(|why| {
                CliError::unavailable(format!("failed to create a temporary directory: {why}"))
            })?;
            return Ok(Self::Temporary(made));
        };
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|why| unwritable(path, &why))?;
        let path = path.canonicalize().map_err(|why| unwritable(path, &why))?;
        Ok(Self::Kept(path))
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }

    fn close(self) -> Result<(), CliError> {
        match self {
            Self::Kept(_) => Ok(()),
            Self::Temporary(folder) => {
                let path = folder.path().to_owned();
                folder.close().map_err(|why| {
                    CliError::failed(format!("failed to remove {}: {why}", path.display()))
                })
            }
        }
    }
}

/// Why the server does not start: one sentence and its exit code.
fn refused(why: &StartError, folder: &Folder, address: SocketAddr) -> CliError {
    match why {
        StartError::Listen(source) => {
            let text = format!("failed to listen on {address}: {source}; choose --listen");
            CliError::unavailable(text)
        }
        StartError::Store(source) => {
            let place = folder.path().display();
            unusable(why, format!("failed to open the data in {place}: {}", chain(source)))
        }
        StartError::Credentials { .. }
        | StartError::Certificate(_)
        | StartError::Randomness
        | StartError::Bootstrap(_) => unusable(why, chain(why)),
    }
}

fn unusable(why: &StartError, text: String) -> CliError {
    if why.is_other_format() { CliError { code: 3, text } } else { CliError::unavailable(text) }
}

fn unwritable(path: &Path, why: &io::Error) -> CliError {
    CliError::unavailable(format!("failed to write to {}: {why}", path.display()))
}

/// Writes another file first, so that no reader finds half of one.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&draft, path)
}

fn print(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|why| CliError::failed(format!("failed to write to standard output: {why}")))
}
