//! The provider of this machine's own hosts, served by this very process over gRPC.
//!
//! Servers that share a data directory share its hosts: one of them serves, the others find it by
//! its socket, and whoever is first takes its place when it ends.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::time::sleep;
use usher_provider::journal;
use usher_provider::kit::{Kit, Options, StartError, Timeouts};
use usher_provider::server::serve;
use usher_provider::service::Service;
use usher_wire::fleet::incoming_here;
use uuid::Uuid;

use crate::config::Local;
use crate::error::ServerError;
use crate::worker::stopped;
use usher_hosts::supervisor::{ignore_missing, private_folder};
use usher_hosts::{Hosts, Settings};
use usher_wire::chain;

/// What the provider is called.
pub const NAME: &str = "local";
/// Where it listens: nobody but the owner of the folder gets there.
const SOCKET: &str = "socket";
/// What whoever serves holds.
const LOCK: &str = "lock";
/// The longest path that a socket can have.
const PATH_MAX: usize = 100;
/// A snapshot is taken when so many bytes were appended.
const SNAPSHOT_AFTER_BYTES: u64 = 16 << 20;
/// How soon whoever does not serve looks whether it may.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(1);

/// Where the hosts of this machine lie.
#[derive(Debug)]
pub struct Ground {
    root: PathBuf,
    local: Local,
    /// The folder, as long as somebody may call by it.
    folder: File,
}

/// A provider that listens and is about to be served.
pub struct Home {
    kit: Kit<Hosts>,
    listener: UnixListener,
}

impl Ground {
    /// The place below `root`; a new one if nothing is there.
    pub fn open(root: PathBuf, local: Local) -> Result<Self, ServerError> {
        private_folder().recursive(true).create(&root).map_err(|why| unusable(&why))?;
        let folder = File::open(&root).map_err(|why| unusable(&why))?;
        Ok(Self { root, local, folder })
    }

    /// Where whoever serves listens, for calls of this process.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// The socket by a name that is short enough, however deep the folder lies.
    fn socket(&self) -> PathBuf {
        let path = self.root.join(SOCKET);
        if path.as_os_str().len() <= PATH_MAX {
            return path;
        }
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd())).join(SOCKET)
    }

    /// Opens the hosts and goes on with those that are there, unless another server has them.
    pub async fn take(&self) -> Result<Option<Home>, ServerError> {
        let mut open = File::options();
        let lock = open.write(true).create(true).truncate(false).open(self.root.join(LOCK));
        let lock = lock.map_err(|why| unusable(&why))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(why) => return Err(unusable(&why.into())),
        }
        let program = std::env::current_exe()
            .map_err(|why| ServerError::unavailable(format!("cannot find this program: {why}")))?;
        let slots = usize::try_from(self.local.machines).unwrap_or(usize::MAX);
        let root = self.root.clone();
        let settings = Settings { root, provider: NAME.to_owned(), slots, program };
        // Verbs outlive whoever asked for them: the hosts are ours until the last one has ended.
        let hosts = Hosts::open(settings).map_err(|why| unusable(&why))?.under(lock);
        let options = Options {
            state: Some(self.root.join("state")),
            nonce: Uuid::new_v4().as_u64_pair().1,
            timeouts: Timeouts::default(),
            poll_interval: Some(self.local.look_interval.0),
            snapshot_after_bytes: SNAPSHOT_AFTER_BYTES,
            forget_blobs_after: Some(self.local.forget_tokens.0),
        };
        let kit = match Kit::start(hosts, options).await {
            Ok(kit) => kit,
            // Whoever had the hosts before lets go of them piece by piece.
            Err(StartError::Journal(journal::Error::Locked { .. })) => return Ok(None),
            Err(why) => return Err(ServerError::unavailable(chain(&why))),
        };
        // Whoever made it is dead: the lock is ours.
        let socket = self.socket();
        ignore_missing(fs::remove_file(&socket)).map_err(|why| unusable(&why))?;
        let listener = UnixListener::bind(&socket).map_err(|why| unusable(&why))?;
        Ok(Some(Home { kit, listener }))
    }

    /// Serves, or waits until it may, until it is told to stop. The nodes go on without it. Why it
    /// cannot go on, if it cannot: then only a new start finds out what the disk holds.
    pub async fn keep(
        self,
        first: Option<Home>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), ServerError> {
        let mut home = first;
        loop {
            if let Some(home) = home {
                return self.serve(home, stop).await;
            }
            tokio::select! {
                () = stopped(&mut stop) => return Ok(()),
                () = sleep(TAKE_OVER_AFTER) => {}
            }
            home = self.take().await?;
        }
    }

    async fn serve(&self, home: Home, mut stop: watch::Receiver<bool>) -> Result<(), ServerError> {
        let Home { kit, listener } = home;
        let told = async move { stopped(&mut stop).await };
        let served = tokio::select! {
            served = serve(incoming_here(listener), Service::new(kit.clone()), told) => served,
            () = kit.write_failed() => {
                return Err(ServerError::unavailable(
                    "cannot go on: the state of this machine's hosts could not be written; mend \
                     the disk below `fleet` in the data directory and start again; the nodes run \
                     on",
                ));
            }
        };
        // The next start takes it away if this one cannot.
        let _ = fs::remove_file(self.socket());
        served.map_err(|why| {
            let why = chain(&why);
            ServerError::unavailable(format!("cannot serve the hosts of this machine: {why}"))
        })
    }
}

fn unusable(why: &io::Error) -> ServerError {
    ServerError::unavailable(format!("cannot keep the hosts of this machine: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: u32 = 6_000;

    fn ground(dir: &tempfile::TempDir) -> Ground {
        Ground::open(dir.path().join("fleet"), Local::default()).unwrap_or_else(|_| panic!("open"))
    }

    async fn take(ground: &Ground) -> Option<Home> {
        let taken = ground.take().await;
        taken.unwrap_or_else(|_| panic!("it is an error that somebody has the hosts"))
    }

    /// Takes what nobody has any more. A process that another test just starts has all that is open
    /// here until it runs its own program.
    async fn take_soon(ground: &Ground) -> Home {
        for _ in 0..LOOKS {
            if let Some(home) = take(ground).await {
                return home;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("somebody has the hosts for ever");
    }

    /// Red by: a lock that goes when nobody serves any more although verbs are still at work.
    #[tokio::test]
    async fn hosts_are_nobody_elses_while_a_verb_works_on_them() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (ground(&dir), ground(&dir));
        let home = take(&one).await.unwrap();
        let at_work = home.kit.clone();
        drop(home);
        assert!(take(&other).await.is_none());
        drop(at_work);
        drop(take_soon(&other).await);
    }

    /// Red by: a server that ends because the one before it has not let go of everything yet.
    #[tokio::test]
    async fn hosts_whose_journal_is_held_are_not_ours_yet() {
        let dir = tempfile::tempdir().unwrap();
        let ground = ground(&dir);
        let held = File::create(dir.path().join("fleet").join("state.lock")).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert!(take(&ground).await.is_none());
        drop(held);
        drop(take_soon(&ground).await);
    }
}
