//! The configuration: defaults, then the file, then the environment, then the command line.
//!
//! **Invariants**
//! - An unknown key in the file or in `--set` is refused.
//! - Every value is checked before anything is started.
//! - A dump contains no password.

mod bounds;
mod connections;
mod fleet;
pub mod manual;
pub mod span;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

pub use connections::{Connections, Tls};
pub use fleet::{Fleet, SwitchMode};

use span::Span;

/// The prefix of environment variables.
const PREFIX: &str = "USHER_";

/// All settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Address to listen on.
    pub listen: String,
    /// Where state is stored; empty is the data directory of the platform.
    pub data_dir: String,
    /// URL of this server for agents; empty is the address it listens on.
    pub api_url: String,
    /// Image of the agents, where they run as containers.
    pub agent_image: String,
    /// Log level on stderr.
    pub log: String,
    /// Limits and deadlines of connections.
    pub connections: Connections,
    /// Certificates.
    pub tls: Tls,
    pub database: Database,
    pub worker: Worker,
    /// Intervals and deadlines of the broker.
    pub broker: Broker,
    /// Bootstrap tokens.
    pub tokens: Tokens,
    /// Nodes.
    pub mesh: Mesh,
    /// The mass-deletion guard.
    pub guard: GuardConfig,
    /// Retention.
    pub keep: Keep,
    /// The keys that secrets are derived with.
    pub key: Key,
    pub local: Local,
    /// The shard that manages machines.
    pub fleet: Fleet,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// URL of PostgreSQL; empty is none.
    pub url: String,
    /// Size of the connection pool.
    pub connections_max: u32,
    pub statement_timeout: Span,
    /// How often to poll for events and drains of other processes.
    pub log_poll: Span,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// How many items are reconciled at a time.
    pub steps_max: u32,
    /// Duration of a lease.
    pub lease: Span,
    /// How long the steps under one lease may take.
    pub step_deadline: Span,
    /// How long a request may outlive the lease of its worker.
    pub request_bound: Span,
    /// How often to query the queue without a wake-up.
    pub due_query: Span,
    pub back_off_base: Span,
    pub back_off_max: Span,
}

/// Intervals and deadlines of the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Broker {
    /// The longest requeue interval of a resource in transition.
    pub reconcile_interval: Span,
    /// After this a substrate that is not ready is overdue.
    pub provisioning_deadline: Span,
    /// After this a node that has not registered is overdue.
    pub enrolment_deadline: Span,
    /// After this a node that has not left is overdue.
    pub drain_deadline: Span,
    /// After this a substrate that still exists is overdue.
    pub teardown_deadline: Span,
}

/// Bootstrap tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tokens {
    /// How long a token may be redeemed after its substrate was first ready.
    pub lifetime: Span,
}

/// Nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mesh {
    /// Heartbeat interval of a node.
    pub heartbeat: Span,
    /// A node is lost after this many missed heartbeats.
    pub missed_max: u32,
    /// How long a node may take to leave.
    pub drain_grace: Span,
    /// How long the other nodes may take to acknowledge that a node left.
    pub acknowledgements: Span,
}

/// The mass-deletion guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GuardConfig {
    /// It trips if more than this many vanish without a request...
    pub count: u32,
    /// ...and more than this share, in percent...
    pub percent: u32,
    /// ...within this time.
    pub window: Span,
}

/// Retention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keep {
    pub events: Span,
    pub idempotency_keys: Span,
    pub tombstones: Span,
}

/// The keys that secrets are derived with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Key {
    /// Where they are; empty is `server.key` in the data directory.
    pub file: String,
}

/// The local world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Local {
    /// What runs the agents.
    pub agent: AgentMode,
    /// How long an agent may take to exit before it is killed.
    pub agent_grace: Span,
    /// Number of machines of the local provider.
    pub machines: u32,
    /// How long the bootstrap token of a started machine stays in the state of the local provider.
    pub forget_tokens: Span,
    /// How often the local provider checks for missing hosts and nodes.
    pub look_interval: Span,
    /// How often a resource that found no free machine retries without an event.
    pub wait_interval: Span,
}

/// What runs the agents of the local world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentMode {
    /// The local world starts a process per agent.
    Process,
    /// An external program.
    External,
    /// The fleet: a shard of this server and the local provider.
    Fleet,
}

/// Why a configuration is invalid.
#[derive(Debug, Error)]
pub enum Error {
    #[error("failed to read configuration file \"{}\"", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or a value has the wrong type.
    #[error("invalid configuration in \"{from}\": {why}")]
    Syntax {
        /// The file, the variable or the option.
        from: String,
        why: String,
    },
    #[error("unknown setting \"{key}\"; --dump-config prints all")]
    Unknown { key: String },
    #[error("invalid setting {key} = {value}: {why}")]
    Bounds {
        key: &'static str,
        value: String,
        /// The accepted bounds.
        why: String,
    },
}

/// The sources of settings; later ones override earlier ones.
#[derive(Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
    /// Keys and values of `--set`.
    pub typed: Vec<(String, String)>,
}

impl Config {
    /// Merges the sources and checks the result.
    pub fn load(sources: &Sources) -> Result<Self, Error> {
        let known = table_of(&Self::default());
        let mut merged = known.clone();
        if let Some(path) = &sources.file {
            let given = read(path)?;
            merge(&mut merged, given, &known, &path.display().to_string(), "")?;
        }
        for key in keys(&known, "") {
            let name = variable_of(&key);
            if let Some(text) = sources.variables.get(&name) {
                set(&mut merged, &key, text, &name)?;
            }
        }
        for (key, text) in &sources.typed {
            set(&mut merged, key, text, "--set")?;
        }
        let config = Self::deserialize(Value::Table(merged)).map_err(|why| Error::Syntax {
            from: "settings".to_owned(),
            why: first_line(&why.to_string()),
        })?;
        config.check()?;
        Ok(config)
    }

    /// The configuration as TOML, without the password of the database.
    pub fn dump(&self) -> String {
        let mut shown = self.clone();
        shown.database.url = without_password(&self.database.url);
        toml::to_string(&shown).unwrap_or_default()
    }
}

/// Every key with its default, in the order of the file.
pub fn reference() -> Vec<(String, String)> {
    let known = table_of(&Config::default());
    let value = |key: &String| lookup(&known, key).map_or(String::new(), ToString::to_string);
    keys(&known, "").into_iter().map(|key| (key.clone(), value(&key))).collect()
}

/// The environment variable that sets a key.
pub fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// The value of an environment variable, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "settings are read from the environment here only")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub fn is_postgres(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

fn table_of(config: &Config) -> Table {
    Table::try_from(config).unwrap_or_default()
}

fn read(path: &Path) -> Result<Table, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::File { path: path.to_owned(), source })?;
    text.parse().map_err(|why: toml::de::Error| Error::Syntax {
        from: path.display().to_string(),
        why: first_line(why.message()),
    })
}

/// Merges a table into another; an unknown key is refused with its full name.
fn merge(
    into: &mut Table,
    given: Table,
    known: &Table,
    from: &str,
    above: &str,
) -> Result<(), Error> {
    for (key, value) in given {
        let whole = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match (known.get(&key), into.get_mut(&key), value) {
            (Some(Value::Table(known)), Some(Value::Table(into)), Value::Table(given)) => {
                merge(into, given, known, from, &whole)?;
            }
            (Some(Value::Table(_)), _, _) => {
                let why = format!("\"{whole}\" is a table");
                return Err(Error::Syntax { from: from.to_owned(), why });
            }
            (Some(_), _, value) => {
                into.insert(key, value);
            }
            (None, _, _) => return Err(Error::Unknown { key: whole }),
        }
    }
    Ok(())
}

/// Sets one key from text, which is parsed as the type of its default.
fn set(table: &mut Table, key: &str, text: &str, from: &str) -> Result<(), Error> {
    let (section, name) = match key.split_once('.') {
        Some((section, name)) => (Some(section), name),
        None => (None, key),
    };
    let unknown = || Error::Unknown { key: key.to_owned() };
    let table = match section {
        Some(section) => match table.get_mut(section) {
            Some(Value::Table(table)) => table,
            Some(_) | None => return Err(unknown()),
        },
        None => table,
    };
    let value = match table.get(name) {
        Some(Value::Integer(_)) => Value::Integer(text.parse().map_err(|_| Error::Syntax {
            from: from.to_owned(),
            why: format!("\"{key}\" must be an integer, not \"{text}\""),
        })?),
        Some(Value::String(_)) => Value::String(text.to_owned()),
        Some(_) | None => return Err(unknown()),
    };
    table.insert(name.to_owned(), value);
    Ok(())
}

fn keys(table: &Table, above: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (key, value) in table {
        let whole = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            Value::Table(below) => all.extend(keys(below, &whole)),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => all.push(whole),
        }
    }
    all
}

fn lookup<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        Some((section, name)) => table.get(section)?.get(name),
        None => table.get(key),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A URL without its password.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return String::new() };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{user}@{host}")
        }
        None => authority.to_owned(),
    };
    // The query may hold a password as well.
    let path = path.split('?').next().unwrap_or_default();
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests;
