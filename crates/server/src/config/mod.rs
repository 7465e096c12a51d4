//! The one configuration: defaults, then the file, then the environment, then what is typed.
//!
//! **Invariants**
//! - A key that nobody knows is refused, wherever it comes from in a file or by `--set`.
//! - Every figure is checked before anything is started.
//! - What is dumped holds no password.

mod bounds;
mod fleet;
pub mod manual;
pub mod span;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

pub use fleet::{Fleet, SwitchMode};

use span::Span;

/// What the names of variables begin with.
const PREFIX: &str = "USHER_";

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where to listen.
    pub listen: String,
    /// Where state lies.
    pub data_dir: String,
    /// Where agents find this server; empty is the address it listens on.
    pub api_url: String,
    /// What agents run from, where they are containers.
    pub agent_image: String,
    /// How much is told on stderr.
    pub log: String,
    /// The database.
    pub database: Database,
    /// The worker.
    pub worker: Worker,
    /// The rules.
    pub broker: Broker,
    /// Bootstrap tokens.
    pub tokens: Tokens,
    /// Nodes.
    pub mesh: Mesh,
    /// The rail.
    pub rail: Rail,
    /// What is kept how long.
    pub keep: Keep,
    /// The local world.
    pub local: Local,
    /// The shard of machines.
    pub fleet: Fleet,
}

/// The database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Database {
    /// Where PostgreSQL is; empty is none.
    pub url: String,
    /// The most connections.
    pub connections_max: u32,
    /// How long one statement may take.
    pub statement_timeout: Span,
    /// How often to ask what other processes told.
    pub log_poll: Span,
}

/// The worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// The most steps at a time.
    pub steps_max: u32,
    /// How long a lease runs.
    pub lease: Span,
    /// How long one step may take.
    pub step_deadline: Span,
    /// How long a request may outlive its driver's lease.
    pub request_bound: Span,
    /// How often to look who is due although nothing was heard.
    pub due_query: Span,
    /// The first back-off.
    pub back_off_base: Span,
    /// The longest back-off.
    pub back_off_max: Span,
}

/// The rules' figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Broker {
    /// The longest rest in a passing phase.
    pub reconcile_interval: Span,
    /// After this a substrate that is not ready is overdue.
    pub provisioning_deadline: Span,
    /// After this a node that has not registered is overdue.
    pub enrolment_deadline: Span,
    /// After this a node that has not left is overdue.
    pub drain_deadline: Span,
    /// After this a substrate that has not gone is overdue.
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
    /// How often a node says that it lives.
    pub heartbeat: Span,
    /// A node is lost after missing this many.
    pub missed_max: u32,
    /// How long a node may take to leave.
    pub drain_grace: Span,
    /// How long the others may take to acknowledge it.
    pub acknowledgements: Span,
}

/// The rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rail {
    /// More than this many...
    pub count: u32,
    /// ...and more than this share, in percent...
    pub percent: u32,
    /// ...within this time trip it.
    pub window: Span,
}

/// What is kept how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keep {
    /// Events.
    pub events: Span,
    /// Idempotency keys.
    pub idempotency_keys: Span,
    /// Tombstones.
    pub tombstones: Span,
}

/// The local world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Local {
    /// Who runs agents.
    pub agent: AgentMode,
    /// How long an agent may take to end.
    pub agent_grace: Span,
    /// How many machines the fleet of this machine has.
    pub machines: u32,
    /// How long the token of a machine that was started may stay in the state of its provider.
    pub forget_tokens: Span,
    /// How often this machine's hosts are looked at.
    pub look_interval: Span,
    /// How often whoever found no machine free looks again.
    pub wait_interval: Span,
}

/// Who runs the agents of the local world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentMode {
    /// This world.
    Process,
    /// Somebody else.
    External,
    /// The fleet: a shard of this server, and a provider of hosts on this machine.
    Fleet,
}

/// Why a configuration is none.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read configuration \"{}\"", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML, or a key or value of it is none.
    #[error("cannot use configuration \"{from}\": {why}")]
    Syntax {
        /// Where it stands.
        from: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such key.
    #[error("cannot set \"{key}\": there is no such setting")]
    Unknown {
        /// The key.
        key: String,
    },
    /// The value is out of its bounds.
    #[error("cannot use {key} = {value}: {why}")]
    Bounds {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// Its bounds.
        why: String,
    },
}

/// Where settings come from, weakest first.
#[derive(Debug, Default)]
pub struct Sources {
    /// A file.
    pub file: Option<PathBuf>,
    /// Variables.
    pub variables: BTreeMap<String, String>,
    /// What was typed, as key and value.
    pub typed: Vec<(String, String)>,
}

impl Config {
    /// The configuration that these sources make.
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

    /// The configuration as a file, without the password of the database.
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

/// The variable that sets a key.
pub fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// The text of a variable, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "this is where settings enter")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether an address is one of PostgreSQL.
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

/// Lays what is given over what is there; a key that is not known is refused by its whole name.
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

/// Sets one key from a text, which is read as the type of its default.
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
            why: format!("\"{key}\" takes a number"),
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

/// A URL whose password, if it has one, is left out.
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
    // What follows a question mark may hold a password as well.
    let path = path.split('?').next().unwrap_or_default();
    format!("{scheme}://{host}/{path}")
}

#[cfg(test)]
mod tests;
