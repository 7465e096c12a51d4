//! The node agent: enrols with its token, sends heartbeats, drains its work in flight, leaves.
//!
//! ```text
//!   lock ──▶ identity ──▶ enrol ──▶ heartbeats ──(drain)──▶ finish ──▶ leave ──▶ marked left
//! ```
//!
//! It runs on machines of others, so its list of dependencies is short and it imports only `wire`.
//!
//! **Invariants**
//! - It takes its lock before anything else and ends if it cannot: no machine runs two agents.
//! - Key and nonce are on the disk before the first call, so that a registration whose answer was
//!   lost is repeated with the same answer.
//! - Only the code `key_revoked` means that the node is deregistered. Silence never does.
//! - A node that left does not rejoin: the mark is on the disk before the process ends.
//! - No secret reaches its output, its arguments or its errors.

pub mod client;
pub mod enrol;
pub mod heartbeat;
pub mod identity;
pub mod lock;
pub mod pace;
pub mod program;
pub mod settings;
pub mod stream;

mod disk;

use std::path::PathBuf;

use thiserror::Error;
use tokio::sync::watch;

use client::Client;
use heartbeat::EnrolledNode;
use identity::Identity;
use pace::Pace;
use settings::Settings;

/// The file that marks a node that left.
pub const LEFT_FILE: &str = "left";

/// The agent version, as sent to the control plane.
pub const VERSION: &str = concat!("usher-agent/", env!("CARGO_PKG_VERSION"));

/// Run the agent of a node
///
/// It enrols with its bootstrap token, sends heartbeats, and leaves when the node is drained
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Read settings from this file
    #[arg(long, value_name = "FILE", default_value = "/etc/usher/agent.json")]
    pub config: PathBuf,
    /// Keep key and identity in this directory
    #[arg(long, value_name = "DIR", default_value = "/var/lib/usher")]
    pub state_dir: PathBuf,
    /// Hold this lock while running [default: agent.lock in the state directory]
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
}

/// How an agent ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The node left the mesh, now or in an earlier run.
    Left,
    /// The process was asked to stop; it resumes as the same node.
    Stopped,
}

/// Why an agent ended.
#[derive(Debug, Error)]
pub enum Error {
    /// Another agent runs here, or the lock file was removed.
    #[error("failed to lock this node")]
    Lock(#[source] lock::Error),
    #[error("invalid settings")]
    Settings(#[source] settings::Error),
    #[error("failed to store the identity")]
    Identity(#[source] std::io::Error),
    /// The URL or the certificates are invalid.
    #[error("failed to set up the HTTP client")]
    Client(#[source] client::Error),
    #[error("failed to enrol")]
    Enrol(#[source] enrol::Error),
}

impl Error {
    /// The exit code of the program.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Settings(_) => 2,
            Self::Enrol(_) => 3,
            Self::Lock(_) | Self::Identity(_) | Self::Client(_) => 5,
        }
    }

    /// The whole chain of causes in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(why) = cause {
            text = format!("{text}: {why}");
            cause = why.source();
        }
        text
    }
}

/// Runs an agent until it leaves, fails, or is asked to stop.
pub async fn run(flags: &Flags, pace: Pace, stop: watch::Receiver<bool>) -> Result<Ending, Error> {
    let path = flags.lock.clone().unwrap_or_else(|| flags.state_dir.join("agent.lock"));
    let lock = lock::Lock::take(&path).map_err(Error::Lock)?;
    let left = flags.state_dir.join(LEFT_FILE);
    if left.try_exists().map_err(Error::Identity)? {
        return Ok(Ending::Left);
    }
    let settings = Settings::read(&flags.config).map_err(Error::Settings)?;
    let client = Client::new(&settings).map_err(Error::Client)?;
    let mut identity = Identity::open(&flags.state_dir).map_err(Error::Identity)?;
    let enrolled = enrol::enrol(&client, &settings, &mut identity, pace, stop.clone()).await;
    let Some(node) = enrolled.map_err(Error::Enrol)? else { return Ok(Ending::Stopped) };
    let in_flight = settings.in_flight_dir.clone();
    let in_flight = in_flight.unwrap_or_else(|| flags.state_dir.join("in-flight"));
    let enrolled = EnrolledNode::new(client, node, in_flight, pace).stored_in(identity);
    let ending = enrolled.run(&lock, stop).await.map_err(Error::Lock)?;
    if ending == Ending::Left {
        disk::write(&left, b"").map_err(Error::Identity)?;
    }
    Ok(ending)
}
