//! A provider as a program: its flags, and the server they start.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpListener;
use usher_wire::fleet::{CapacityProvider, Files, Keyring, Salvager, TlsError, incoming};

use crate::backend::Backend;
use crate::fake::{Fake, FaultRates, FaultyNetwork, Latency, Settings};
use crate::kit::{Kit, Options, StartError, Timeouts};
use crate::server::{ServeError, serve};
use crate::service::Service;

/// Slots whose Create fails, when faults are tested.
const FAULT_SLOTS: usize = 8;

/// The flags of a provider.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Listen on this address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7421")]
    pub addr: SocketAddr,
    /// Name this provider
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub provider: String,
    /// Offer this many slots
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub seed_count: usize,
    /// Keep the state in this file, so that it survives a crash
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Use this certificate; pass all three files or none
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Use this private key
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Verify callers with these CA certificates
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Time each verb out after this long, as in 500ms, 2s or 5m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub transition_timeout: Option<Duration>,
    /// Poll for lost hosts and changed offers this often
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub poll_interval: Duration,
    /// Take a snapshot after this many bytes were appended to the state
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, hide = true)]
    pub snapshot_after_bytes: u64,
    /// Use the fake backend, without real machines
    #[arg(long)]
    pub use_fake_backend: bool,
    #[command(flatten)]
    fake: FakeFlags,
}

/// The faults of the fake backend.
#[derive(Clone, Debug, clap::Args)]
struct FakeFlags {
    /// Delay each verb of the fake by a time in this range, as in 5ms:50ms
    #[arg(id = "fake-latency", long = "fake-latency")]
    #[arg(value_name = "FROM:TO", value_parser = latency)]
    latency: Option<Latency>,
    /// End this share of Creates after their timeout
    #[arg(id = "fake-late", long = "fake-late", value_name = "SHARE", default_value_t = 0.0)]
    late: f64,
    /// Lose this share of responses
    #[arg(id = "fake-lost", long = "fake-lost", value_name = "SHARE", default_value_t = 0.0)]
    lost: f64,
    /// Deliver this share of requests twice
    #[arg(id = "fake-twice", long = "fake-twice", value_name = "SHARE", default_value_t = 0.0)]
    twice: f64,
    /// Delay requests by up to this long, so that others overtake them
    #[arg(
        id = "fake-delay",
        long = "fake-delay",
        value_name = "TIME",
        value_parser = duration,
        default_value = "0ms"
    )]
    delay: Duration,
    /// Seed the random numbers
    #[arg(id = "fake-seed", long = "fake-seed", value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Keep the fake's hosts as files in this folder, so that they outlive it
    #[arg(id = "fake-hosts", long = "fake-hosts", value_name = "DIR")]
    hosts: Option<PathBuf>,
}

/// Why a provider ended.
#[derive(Debug, Error)]
pub enum Error {
    /// The TLS files are invalid.
    #[error("invalid TLS configuration")]
    Tls(#[source] TlsError),
    /// The address cannot be bound.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The folder of the fake's hosts cannot be created.
    #[error("failed to create the folder of the fake's hosts")]
    Fake(#[source] std::io::Error),
    /// The kit did not start.
    #[error("failed to start the provider")]
    Start(#[source] StartError),
    /// The server failed.
    #[error("failed to serve the provider")]
    Serve(#[source] ServeError),
    /// A journal write failed.
    #[error("failed to write the state")]
    WriteFailed,
}

impl Error {
    /// Whether the flags are wrong.
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Tls(TlsError::Partial))
    }
}

impl Flags {
    /// The options of the kit.
    pub fn options(&self, nonce: u64) -> Options {
        Options {
            state: self.state.clone(),
            nonce,
            timeouts: self.transition_timeout.map(Timeouts::all).unwrap_or_default(),
            poll_interval: Some(self.poll_interval),
            snapshot_after_bytes: self.snapshot_after_bytes,
            ..Options::default()
        }
    }

    /// The fake backend of these flags.
    pub fn fake(&self) -> Result<Fake, Error> {
        let timeout = self.transition_timeout;
        let late_after = timeout.unwrap_or(Timeouts::default().create).mul_f64(1.25);
        let settings = Settings {
            provider: self.provider.clone(),
            seed_count: self.seed_count,
            // A timeout on the fake means that faults are tested.
            fault_slots: if timeout.is_some() { FAULT_SLOTS } else { 0 },
            latency: [self.fake.latency.unwrap_or(Latency::None); 4],
            late: self.fake.late,
            late_after,
            seed: self.fake.seed,
            folder: self.fake.hosts.clone(),
        };
        Fake::new(settings).map_err(Error::Fake)
    }

    fn keyring(&self) -> Result<Option<Arc<Keyring>>, Error> {
        let flags = (self.tls_cert.clone(), self.tls_key.clone(), self.tls_ca.clone());
        let files = Files::of(flags.0, flags.1, flags.2).map_err(Error::Tls)?;
        let opened = files.map(Keyring::open).transpose().map_err(Error::Tls)?;
        Ok(opened.map(Arc::new))
    }

    fn rates(&self) -> FaultRates {
        let FakeFlags { lost, twice, delay, .. } = self.fake;
        FaultRates { lost, twice, delay }
    }
}

/// Serves the fake backend until `stop` resolves.
pub async fn run_fake(
    flags: &Flags,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let kit = Kit::start(flags.fake()?, options).await.map_err(Error::Start)?;
    let service = FaultyNetwork::new(Service::new(kit.clone()), flags.rates(), flags.fake.seed);
    listen(flags, service, &kit, stop).await
}

/// Serves a backend until `stop` resolves.
pub async fn run<B: Backend>(
    backend: B,
    flags: &Flags,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let kit = Kit::start(backend, options).await.map_err(Error::Start)?;
    listen(flags, Service::new(kit.clone()), &kit, stop).await
}

async fn listen<B: Backend>(
    flags: &Flags,
    service: impl CapacityProvider + Salvager,
    kit: &Kit<B>,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let keyring = flags.keyring()?;
    let listener = TcpListener::bind(flags.addr).await;
    let listener = listener.map_err(|source| Error::Listen { address: flags.addr, source })?;
    tokio::select! {
        served = serve(incoming(listener, keyring), service, stop) => served.map_err(Error::Serve),
        () = kit.write_failed() => Err(Error::WriteFailed),
    }
}

/// Parses a duration: a number and a unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("\"{text}\" is not a duration (a number with ms, s, m or h)");
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, seconds) = unit.ok_or_else(bad)?;
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| bad())
}

fn latency(text: &str) -> Result<Latency, String> {
    let Some((from, to)) = text.split_once(':') else { return duration(text).map(Latency::Fixed) };
    Ok(Latency::Between(duration(from)?, duration(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        let cases = [("500ms", 500), ("2s", 2_000), ("1.5s", 1_500), ("5m", 300_000), ("0s", 0)];
        for (text, millis) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1d", "1e30h", "NaNs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
