//! The node agent: enrols with its token, says that it lives, finishes what is in flight, leaves.
//!
//! ```text
//!   lock ──▶ identity ──▶ enrol ──▶ attend ──(told to leave)──▶ finish ──▶ leave ──▶ marked left
//! ```
//!
//! It stands alone because it runs on machines that are not ours: what it is made of fits on a
//! screen, and it knows nothing but the wire.
//!
//! **Invariants**
//! - It takes its lock before anything else and ends if it cannot: no machine has two.
//! - Key and nonce are on the disk before the first call, so an answer that was lost is asked for
//!   again and is the same answer.
//! - Only the closed code that says so makes it believe that it is out. Silence never does.
//! - Whoever left does not come back: the mark is on the disk before the process ends.
//! - No secret reaches its output, its arguments or its errors.

pub mod attend;
pub mod client;
pub mod enrol;
pub mod identity;
pub mod lock;
pub mod pace;
pub mod program;
pub mod settings;
pub mod stream;

mod disk;

use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;

use attend::Attendance;
use client::Client;
use identity::Identity;
use pace::Pace;
use settings::Settings;

/// What marks a node that left.
pub const LEFT_FILE: &str = "left";

/// What this program is, as it tells the control plane.
pub const VERSION: &str = concat!("usher-agent/", env!("CARGO_PKG_VERSION"));

/// Run the agent of a node
///
/// It enrols with its bootstrap token, says that the node lives, and leaves when it is told to
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

/// How an agent ended without having failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It left the mesh, now or before.
    Left,
    /// It was asked to end, and comes back when it is started again.
    Stopped,
}

/// Why an agent ended.
#[derive(Debug, Error)]
pub enum Error {
    /// Another one runs here, or the place is gone.
    #[error("cannot hold the lock of this node")]
    Lock(#[source] lock::Error),
    /// The settings are none.
    #[error("cannot use the settings")]
    Settings(#[source] settings::Error),
    /// The disk failed.
    #[error("cannot keep the identity")]
    Identity(#[source] std::io::Error),
    /// The control plane cannot be called at all.
    #[error("cannot call the control plane")]
    Client(#[source] client::Error),
    /// The control plane refused for good.
    #[error("cannot enrol")]
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
    pub fn told(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(why) = cause {
            text = format!("{text}: {why}");
            cause = why.source();
        }
        text
    }
}

/// Runs an agent until it left, failed, or is asked to stop.
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
    let attendance = Attendance { client: Arc::new(client), node, in_flight, pace };
    let ending = attendance.run(&lock, stop).await.map_err(Error::Lock)?;
    if ending == Ending::Left {
        disk::write(&left, b"").map_err(Error::Identity)?;
    }
    Ok(ending)
}
