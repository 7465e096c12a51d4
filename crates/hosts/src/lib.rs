//! The local provider: a host is a directory, and its node a supervised process.
//!
//! ```text
//!   <root>/hosts/<host>/machine    the id of its machine
//!                       leaving    marks that its node shall end
//!   <root>/process/<host>/…        the record of its node, as the supervisor keeps it
//! ```
//!
//! **Invariants**
//! - A host is named after the operation that created it, so a repeated request is idempotent.
//! - A node outlives its provider, and is found again by its lock.
//! - A node runs while its host exists and is not leaving; only the disk decides that.

pub mod clock;
mod keeper;
pub mod supervisor;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use usher_kernel::Uid;
use usher_provider::backend::LAST_GRACE;
use usher_provider::state::HostedMachine;
use usher_provider::{Backend, Command, CreatedHost, Fault, LostHost};
use usher_wire::fleet::{CapacityType, HostRef, Machine, MachineState, Resources};

use crate::supervisor::{
    Holder, PROCESS_LOCK, Unit, Units, has_entries, ignore_missing, private_folder,
    rename_exclusively, write_private,
};
use keeper::Keeper;

const HOSTS: &str = "hosts";
const PROCESSES: &str = "process";
const MACHINE: &str = "machine";
const LEAVING: &str = "leaving";
const STAGED: &str = ".staged-";
const UNNAMED: &str = ".unnamed-";
/// The files of an agent; any other node has its blob in `bootstrap`.
const SETTINGS_FILE: &str = "agent.json";
const TOKEN_FILE: &str = "bootstrap-token";
const BLOB_FILE: &str = "bootstrap";

#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of the provider.
    pub root: PathBuf,
    pub provider: String,
    /// The number of machines.
    pub slots: usize,
    /// The program that is started as a node: this one.
    pub program: PathBuf,
}

/// The hosts of this machine.
#[derive(Debug)]
pub struct Hosts {
    settings: Settings,
    places: Places,
    keeper: Keeper,
    /// Held while this process owns the hosts, if another process may open them.
    _lock: Option<File>,
}

/// The folders.
#[derive(Clone, Debug)]
struct Places {
    hosts: PathBuf,
    units: Units,
}

/// A bootstrap blob that starts an agent; any other blob is only stored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Boot {
    settings: serde_json::Value,
    token: String,
}

/// Whether there are hosts below `root`.
pub fn has_hosts(root: &Path) -> io::Result<bool> {
    has_entries(&root.join(HOSTS))
}

impl Hosts {
    /// Opens the folder and supervises the nodes in it.
    pub fn open(settings: Settings) -> io::Result<Self> {
        let hosts = settings.root.join(HOSTS);
        private_folder().recursive(true).create(&hosts)?;
        for entry in fs::read_dir(&hosts)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if [STAGED, UNNAMED].iter().any(|it| name.starts_with(it)) {
                ignore_missing(fs::remove_dir_all(entry.path()))?;
            }
        }
        let units = Units::open(settings.root.join(PROCESSES))?;
        units.sweep()?;
        let places = Places { hosts, units };
        let keeper = Keeper::start(places.clone())?;
        Ok(Self { settings, places, keeper, _lock: None })
    }

    /// Keeps a lock until the last operation on the hosts has ended.
    #[must_use]
    pub fn under(self, lock: File) -> Self {
        Self { _lock: Some(lock), ..self }
    }

    fn make(&self, host: &str, command: &Command) -> io::Result<()> {
        let folder = self.places.hosts.join(host);
        if folder.try_exists()? {
            return Ok(());
        }
        let staged = self.places.hosts.join(format!("{STAGED}{host}"));
        ignore_missing(fs::remove_dir_all(&staged))?;
        private_folder().create(&staged)?;
        write_private(&staged.join(MACHINE), command.machine.id.as_bytes())?;
        rename_exclusively(&staged, &folder)
    }

    fn record(&self, host: &str, command: &Command, blob: &Bytes) -> io::Result<()> {
        let words = |words: [&str; 7]| words.map(str::to_owned).to_vec();
        let boot = serde_json::from_slice::<Boot>(blob).ok();
        let settings = boot.as_ref().map(|it| it.settings.to_string()).unwrap_or_default();
        let (args, files): (_, Vec<(&str, &[u8])>) = match &boot {
            Some(boot) => (
                words([
                    "agent",
                    "--config",
                    SETTINGS_FILE,
                    "--state-dir",
                    ".",
                    "--lock",
                    PROCESS_LOCK,
                ]),
                vec![(SETTINGS_FILE, settings.as_bytes()), (TOKEN_FILE, boot.token.as_bytes())],
            ),
            None => (
                ["provider", "host", "--lock", PROCESS_LOCK].map(str::to_owned).to_vec(),
                vec![(BLOB_FILE, &blob[..])],
            ),
        };
        let unit = Unit {
            owner: Uid::new(&command.operation),
            labels: command.machine.labels.clone(),
            program: self.settings.program.clone(),
            args,
            grace_ms: 0,
        };
        // An existing record is of this operation: no other one configures a bound machine.
        self.places.units.record(host, &unit, &files).map(|_| ())
    }

    /// Stops the node of a host; returns when its process and its record are gone.
    async fn stop_node(&self, host: &str, grace: Duration) -> Result<(), Fault> {
        let leaving = self.places.hosts.join(host).join(LEAVING);
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let begin = || {
            self.places.units.set_grace(host, grace_ms)?;
            // A host without a folder is leaving anyway.
            ignore_missing(write_private(&leaving, b""))
        };
        begin().map_err(|why| disk(&why))?;
        self.keeper.tend(host);
        let gone = || {
            let units = &self.places.units;
            // The process may still run if another process removed the record.
            let is_gone = units.read(host)?.is_none() && units.holder(host)? == Holder::Free;
            Ok(is_gone.then_some(()))
        };
        self.keeper.wait_for(gone).await.map_err(|why| disk(&why))?;
        ignore_missing(fs::remove_file(&leaving)).map_err(|why| disk(&why))
    }

    fn unmake(&self, host: &str) -> io::Result<()> {
        let unnamed = self.places.hosts.join(format!("{UNNAMED}{host}"));
        ignore_missing(fs::rename(self.places.hosts.join(host), &unnamed))?;
        ignore_missing(fs::remove_dir_all(unnamed))
    }
}

impl Places {
    /// Whether the node of a host should run.
    fn runs(&self, host: &str) -> io::Result<bool> {
        let folder = self.hosts.join(host);
        Ok(folder.try_exists()? && !folder.join(LEAVING).try_exists()?)
    }
}

#[async_trait]
impl Backend for Hosts {
    async fn describe(&self) -> Result<Vec<Machine>, Fault> {
        let shape = [("cpu", "1"), ("memory", "512Mi")];
        let resources = shape.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let slot = |index: usize| Machine {
            id: format!("{}-slot-{index:04}", self.settings.provider),
            state: MachineState::Speculative.into(),
            instance_type: "local.process".to_owned(),
            zone: "local".to_owned(),
            capacity_type: CapacityType::OnDemand.into(),
            resources: Some(Resources { resources: std::collections::BTreeMap::clone(&resources) }),
            ..Machine::default()
        };
        Ok((0..self.settings.slots).map(slot).collect())
    }

    async fn create(&self, command: &Command) -> Result<CreatedHost, Fault> {
        let name = host_name(&command.operation);
        self.make(&name, command).map_err(|why| disk(&why))?;
        let host = HostRef { provider: self.settings.provider.clone(), r#ref: name };
        Ok(CreatedHost { host, ..CreatedHost::default() })
    }

    async fn configure(&self, command: &Command, blob: &Bytes) -> Result<(), Fault> {
        let host = host_of(command)?;
        if !self.places.hosts.join(host).try_exists().map_err(|why| disk(&why))? {
            return Err(Fault::permanent(format!("host \"{host}\" is gone")));
        }
        self.record(host, command, blob).map_err(|why| disk(&why))?;
        self.keeper.tend(host);
        Ok(())
    }

    async fn ready(&self, command: &Command) -> Result<(), Fault> {
        let host = host_of(command)?;
        let units = &self.places.units;
        self.keeper
            .wait_for(|| {
                if let Some(why) = units.failure(host)? {
                    return Ok(Some(Err(Fault::permanent(why))));
                }
                let holds = matches!(units.holder(host)?, Holder::Process(_));
                Ok((holds || units.has_left(host)?).then_some(Ok(())))
            })
            .await
            .map_err(|why| disk(&why))?
    }

    async fn drain(&self, command: &Command, grace: Duration) -> Result<(), Fault> {
        self.stop_node(host_of(command)?, grace).await
    }

    async fn delete(&self, command: &Command) -> Result<(), Fault> {
        self.unmake(host_of(command)?).map_err(|why| disk(&why))
    }

    async fn salvage(&self, command: &Command, made_by: Option<&str>) -> Result<(), Fault> {
        let known = command.machine.host.as_ref().map(|it| it.r#ref.clone());
        let Some(host) = known.or_else(|| made_by.map(host_name)) else { return Ok(()) };
        self.stop_node(&host, LAST_GRACE).await?;
        self.unmake(&host).map_err(|why| disk(&why))
    }

    async fn check(&self, hosts: &[HostedMachine]) -> Result<Vec<LostHost>, Fault> {
        // Restarts nodes that exited.
        self.keeper.tend_all();
        let lost = |it: &HostedMachine| {
            let host = &it.host.r#ref;
            let what = if matches!(self.places.hosts.join(host).try_exists(), Ok(false)) {
                "the folder"
            } else if it.is_bound && matches!(self.places.units.read(host), Ok(None)) {
                "the record of the node"
            } else {
                return None;
            };
            Some(LostHost {
                machine: it.clone(),
                reason: format!("{what} of host \"{host}\" is gone"),
            })
        };
        Ok(hosts.iter().filter_map(lost).collect())
    }
}

/// The name of the host that an operation creates.
fn host_name(operation: &str) -> String {
    format!("host-{operation}")
}

fn host_of(command: &Command) -> Result<&str, Fault> {
    let host = command.machine.host.as_ref().map(|it| it.r#ref.as_str());
    host.ok_or_else(|| Fault::permanent("the machine has no host"))
}

fn disk(why: &io::Error) -> Fault {
    Fault::transient(format!("failed to access the folder of the hosts: {why}"))
}
