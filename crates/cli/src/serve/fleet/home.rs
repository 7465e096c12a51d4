//! The provider of this machine's own hosts, served by this very process over gRPC.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use usher_provider::kit::{Kit, Options, Timeouts};
use usher_provider::point;
use usher_provider::server::serve;
use usher_provider::service::Service;
use uuid::Uuid;

use crate::serve::hosts::{Hosts, Settings};
use crate::serve::worker::stopped;
use crate::stop::{Stop, chain};

/// What the provider is called.
pub const NAME: &str = "local";
/// How often it looks for vanished hosts.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// A snapshot is taken when so many bytes were appended.
const SNAPSHOT_AFTER_BYTES: u64 = 16 << 20;

/// A provider that listens and is about to be served.
pub struct Home {
    kit: Kit<Hosts>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Home {
    /// Opens the hosts below `root` and goes on with those that are there.
    pub async fn open(root: PathBuf, slots: u32) -> Result<Self, Stop> {
        let program = std::env::current_exe()
            .map_err(|why| Stop::unavailable(format!("cannot find this program: {why}")))?;
        let slots = usize::try_from(slots).unwrap_or(usize::MAX);
        let state = Some(root.join("state"));
        let settings = Settings { root, provider: NAME.to_owned(), slots, program };
        let failed = |why: std::io::Error| Stop::unavailable(format!("cannot keep hosts: {why}"));
        let hosts = Hosts::open(settings).map_err(failed)?;
        let options = Options {
            state,
            nonce: Uuid::new_v4().as_u64_pair().1,
            timeouts: Timeouts::default(),
            look_interval: Some(LOOK_INTERVAL),
            snapshot_after_bytes: SNAPSHOT_AFTER_BYTES,
            pass: point::pass,
        };
        let kit = Kit::start(hosts, options).await;
        let kit = kit.map_err(|why| Stop::unavailable(chain(&why)))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { kit, listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Serves until it is told to stop. The nodes go on without it.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let Self { kit, listener, .. } = self;
        let told = async move { stopped(&mut stop).await };
        let served = tokio::select! {
            served = serve(listener, None, Service::new(kit.clone()), told) => served,
            () = kit.broken() => {
                tracing::error!("cannot go on with hosts: their state could not be written");
                return;
            }
        };
        if let Err(why) = served {
            tracing::error!(error = %chain(&why), "cannot serve the hosts of this machine");
        }
    }
}
