//! Starts a candidate as its own process, and kills it.

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// How long a candidate may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(20);

/// Why a candidate does not run.
#[derive(Debug, Error)]
pub enum BootError {
    /// It cannot be started.
    #[error("cannot start \"{program}\"")]
    Start {
        /// The program.
        program: String,
        /// How.
        #[source]
        source: io::Error,
    },
    /// It does not listen.
    #[error("cannot reach \"{program}\": it did not listen in time, or ended")]
    Silent {
        /// The program.
        program: String,
    },
}

/// How a candidate is started: the program, and the words before its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The program.
    pub program: String,
    /// The words before its flags.
    pub words: Vec<String>,
}

/// A candidate that runs. It is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pub(super) address: String,
}

impl Boot {
    /// Starts the candidate with its fake substrate.
    pub(super) async fn start(
        &self,
        seed_count: usize,
        state: Option<&Path>,
        more: &[String],
    ) -> Result<Running, BootError> {
        let program = self.program.clone();
        let failed = |source| BootError::Start { program: program.clone(), source };
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let address = port.map_err(failed)?.to_string();
        let mut command = Command::new(&self.program);
        command
            .args(&self.words)
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
        let mut running = Running { child, address };
        let until = Instant::now() + LISTENS_WITHIN;
        while Instant::now() < until {
            if TcpStream::connect(&running.address).await.is_ok() {
                return Ok(running);
            }
            if running.child.try_wait().map_err(failed)?.is_some() {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        Err(BootError::Silent { program })
    }
}

impl Running {
    /// Kills it, as by `kill -9`, and waits until it is gone.
    pub(super) async fn kill(mut self) -> io::Result<()> {
        self.child.start_kill()?;
        self.child.wait().await.map(|_| ())
    }
}
