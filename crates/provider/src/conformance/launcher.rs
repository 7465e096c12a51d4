//! Starts and kills a candidate process.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How long a candidate may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a candidate did not start.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// It cannot be started.
    #[error("failed to start \"{program}\"")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It does not accept connections.
    #[error("\"{program}\" did not listen in time, or exited")]
    NotListening {
        /// The program.
        program: String,
    },
}

/// The command line of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// The program.
    pub program: String,
    /// The arguments before its flags.
    pub args: Vec<String>,
}

/// A running candidate, killed on drop.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pub(super) address: String,
    /// Keeps the port from being given to another process while the candidate starts.
    _port: TcpSocket,
}

impl Launcher {
    /// Starts the candidate with its fake backend.
    pub(super) async fn start(
        &self,
        seed_count: usize,
        state: Option<&Path>,
        more: &[String],
    ) -> Result<Running, LaunchError> {
        let program = self.program.clone();
        let failed = |source| LaunchError::Start { program: program.clone(), source };
        let port = reserve_port().map_err(failed)?;
        let address = port.local_addr().map_err(failed)?.to_string();
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .arg(format!("--addr={address}"))
            .args(["--provider=certify", "--use-fake-backend"])
            .arg(format!("--seed-count={seed_count}"))
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        if let Some(state) = state {
            command.arg(format!("--state={}", state.display()));
        }
        let child = command.spawn().map_err(failed)?;
        let mut running = Running { child, address, _port: port };
        let until = Instant::now() + LISTEN_TIMEOUT;
        while Instant::now() < until {
            if TcpStream::connect(&running.address).await.is_ok() {
                return Ok(running);
            }
            if running.child.try_wait().map_err(failed)?.is_some() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(LaunchError::NotListening { program })
    }
}

/// A loopback port that the kernel gives to no other process while the socket exists. A server that
/// sets `SO_REUSEADDR`, as tokio's listeners do, may still listen on it.
fn reserve_port() -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    Ok(socket)
}

impl Running {
    /// Kills it with SIGKILL and waits for its exit.
    pub(super) async fn kill(mut self) -> io::Result<()> {
        self.child.start_kill()?;
        self.child.wait().await.map(|_| ())
    }
}
