//! A substrate without machines, as slow and unreliable as a real one.
//!
//! Each verb takes a random time, so that verbs end in another order than they began, or waits
//! until it is released. Hosts are names in memory, or files in a folder that outlive the process.
//!
//! Some cluster names and labels inject faults:
//!
//! | cluster | what happens |
//! |---|---|
//! | `fault-error` | Configure fails |
//! | `fault-timeout` | Configure never ends |
//! | `fault-slow-ok` | Configure ends well, but too late |
//! | `fault-drain-error` | Drain fails |
//! | `fault-readiness-block` | the node never becomes ready |
//!
//! Create of a slot with the label `conformance.fault/create=error` fails.

mod network;
mod rng;

pub use network::{FaultRates, FaultyNetwork};
pub use rng::Rng;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::sleep;
use usher_wire::fleet::{CapacityType, HostRef, Machine, MachineState, Resources};

use crate::backend::{Backend, Command, CreatedHost, Fault, LostHost};
use crate::state::HostedMachine;

/// The label of slots whose Create fails.
pub const FAULT_LABEL: &str = "conformance.fault/create";

/// How long a verb takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// No time.
    None,
    /// Always this long.
    Fixed(Duration),
    /// Uniform between these.
    Between(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

/// How a fake behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub provider: String,
    /// How many slots it has.
    pub seed_count: usize,
    /// Additional slots whose Create fails.
    pub fault_slots: usize,
    /// How long create, configure, drain and delete take.
    pub latency: [Latency; 4],
    /// The share of Creates that end after [`Settings::late_after`].
    pub late: f64,
    /// The delay of those.
    pub late_after: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
    /// The folder of host files; `None` keeps hosts in memory.
    pub folder: Option<PathBuf>,
}

/// The fake substrate.
#[derive(Debug)]
pub struct Fake {
    settings: Settings,
    rng: Mutex<Rng>,
    hosts: Mutex<HashSet<String>>,
    lost: Mutex<HashSet<String>>,
    held: watch::Sender<bool>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            provider: "fake".to_owned(),
            seed_count: 32,
            fault_slots: 0,
            latency: [Latency::None; 4],
            late: 0.0,
            late_after: Duration::from_mins(6),
            seed: 1,
            folder: None,
        }
    }
}

impl Latency {
    fn sample(self, rng: &mut Rng) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(time) => time,
            Self::Between(least, most) => {
                least + most.saturating_sub(least).mul_f64(rng.fraction())
            }
            Self::Exponential(mean) => mean.mul_f64((-(1.0 - rng.fraction()).ln()).clamp(0.0, 8.0)),
        }
    }
}

impl Fake {
    /// A fake with these settings; creates its folder if it has one.
    pub fn new(settings: Settings) -> io::Result<Self> {
        if let Some(folder) = &settings.folder {
            fs::create_dir_all(folder)?;
        }
        let rng = Mutex::new(Rng::new(settings.seed));
        let (held, _) = watch::channel(false);
        Ok(Self { settings, rng, hosts: Mutex::default(), lost: Mutex::default(), held })
    }

    /// Blocks every verb until [`Fake::release`].
    pub fn hold(&self) {
        self.held.send_replace(true);
    }

    /// Unblocks the verbs.
    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// Removes a host, as a spot interruption does.
    pub fn lose(&self, host: &HostRef) -> io::Result<()> {
        self.remove(&host.r#ref)?;
        lock(&self.lost).insert(host.r#ref.clone());
        Ok(())
    }

    /// Every existing host.
    pub fn hosts(&self) -> io::Result<Vec<String>> {
        let mut hosts = Vec::new();
        match &self.settings.folder {
            None => hosts.extend(lock(&self.hosts).iter().cloned()),
            Some(folder) => {
                for entry in fs::read_dir(folder)? {
                    hosts.push(entry?.file_name().to_string_lossy().into_owned());
                }
            }
        }
        hosts.sort();
        Ok(hosts)
    }

    async fn latency(&self, verb: usize) {
        let time = self.settings.latency.get(verb).copied().unwrap_or(Latency::None);
        let time = time.sample(&mut lock(&self.rng));
        sleep(time).await;
        let mut held = self.held.subscribe();
        let _ = held.wait_for(|held| !held).await;
    }

    fn put(&self, host: &str) -> io::Result<()> {
        match &self.settings.folder {
            None => _ = lock(&self.hosts).insert(host.to_owned()),
            Some(folder) => fs::write(folder.join(host), b"")?,
        }
        Ok(())
    }

    fn remove(&self, host: &str) -> io::Result<()> {
        match &self.settings.folder {
            None => _ = lock(&self.hosts).remove(host),
            Some(folder) => match fs::remove_file(folder.join(host)) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(why),
                Ok(()) | Err(_) => {}
            },
        }
        Ok(())
    }

    fn slot(&self, index: usize, faulty: bool) -> Machine {
        const KINDS: [(&str, &str, &str); 3] =
            [("small", "4", "16Gi"), ("medium", "8", "32Gi"), ("large", "16", "64Gi")];
        const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
        let capacity = [
            (CapacityType::OnDemand, 0.4, 0.0),
            (CapacityType::Spot, 0.1, 0.05),
            (CapacityType::Reserved, 0.2, 0.0),
            (CapacityType::BareMetal, 0.0, 0.0),
        ];
        let (kind, cpu, memory) = KINDS[index % KINDS.len()];
        let (capacity_type, price, chance) = capacity[index / KINDS.len() % capacity.len()];
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let resources = BTreeMap::from([pair("cpu", cpu), pair("memory", memory)]);
        let mut labels = BTreeMap::from([("rack".to_owned(), format!("r{}", index % 8))]);
        let name = if faulty { "faulty" } else { "slot" };
        if faulty {
            labels.extend([pair(FAULT_LABEL, "error")]);
        }
        Machine {
            id: format!("{}-{name}-{index:06}", self.settings.provider),
            state: MachineState::Speculative.into(),
            instance_type: format!("fake.{kind}"),
            zone: ZONES[index / 7 % ZONES.len()].to_owned(),
            capacity_type: capacity_type.into(),
            price_per_hour: price,
            interruption_probability: chance,
            resources: Some(Resources { resources }),
            labels,
            ..Machine::default()
        }
    }
}

#[async_trait]
impl Backend for Fake {
    async fn describe(&self) -> Result<Vec<Machine>, Fault> {
        let sound = (0..self.settings.seed_count).map(|it| self.slot(it, false));
        let faulty = (0..self.settings.fault_slots).map(|it| self.slot(it, true));
        Ok(sound.chain(faulty).collect())
    }

    async fn create(&self, command: &Command) -> Result<CreatedHost, Fault> {
        self.latency(0).await;
        if command.machine.labels.get(FAULT_LABEL).is_some_and(|it| it == "error") {
            return Err(Fault::permanent("the slot is faulty"));
        }
        let late = lock(&self.rng).chance(self.settings.late);
        if late {
            sleep(self.settings.late_after).await;
        }
        // Named by the operation, so that a repeated Create finds its host.
        let name = format!("host-{}", command.operation);
        self.put(&name).map_err(disk)?;
        let host = HostRef { provider: self.settings.provider.clone(), r#ref: name };
        let allocatable = command.machine.resources.clone();
        Ok(CreatedHost { host, resources: None, allocatable })
    }

    async fn configure(&self, command: &Command, _blob: &Bytes) -> Result<(), Fault> {
        self.latency(1).await;
        match command.machine.cluster.as_str() {
            "fault-error" => Err(Fault::permanent("the node did not join")),
            "fault-timeout" => std::future::pending().await,
            "fault-slow-ok" => {
                sleep(self.settings.late_after).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn drain(&self, command: &Command, _grace: Duration) -> Result<(), Fault> {
        self.latency(2).await;
        if command.machine.cluster == "fault-drain-error" {
            return Err(Fault::permanent("the node did not leave"));
        }
        Ok(())
    }

    async fn delete(&self, command: &Command) -> Result<(), Fault> {
        self.latency(3).await;
        let host = command.machine.host.as_ref().map_or("", |it| it.r#ref.as_str());
        self.remove(host).map_err(disk)
    }

    async fn salvage(&self, command: &Command, made_by: Option<&str>) -> Result<(), Fault> {
        self.latency(3).await;
        let known = command.machine.host.as_ref().map(|it| it.r#ref.clone());
        let made = made_by.map(|it| format!("host-{it}"));
        known.iter().chain(&made).try_for_each(|it| self.remove(it)).map_err(disk)
    }

    async fn ready(&self, command: &Command) -> Result<(), Fault> {
        if command.machine.cluster == "fault-readiness-block" {
            return std::future::pending().await;
        }
        Ok(())
    }

    async fn check(&self, hosts: &[HostedMachine]) -> Result<Vec<LostHost>, Fault> {
        let lost = lock(&self.lost);
        let gone = |it: &&HostedMachine| match &self.settings.folder {
            None => lost.contains(&it.host.r#ref),
            Some(folder) => matches!(folder.join(&it.host.r#ref).try_exists(), Ok(false)),
        };
        let why = |it: &HostedMachine| format!("host \"{}\" is gone", it.host.r#ref);
        let gone = hosts.iter().filter(gone);
        Ok(gone.map(|it| LostHost { machine: it.clone(), reason: why(it) }).collect())
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn disk(why: io::Error) -> Fault {
    Fault::transient(format!("failed to access the folder of hosts: {why}"))
}
