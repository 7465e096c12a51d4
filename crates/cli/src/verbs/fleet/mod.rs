//! `usher fleet`: shards, needs of clusters, and plans.

mod demand;
mod need;
mod plan;

use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};
use usher_wire::operator::{List, Machine, Shard};

use crate::client::encoded;
use crate::console::{age, cell, table};
use crate::error::CliError;
use crate::session::{Basics, Session, is_id, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List shards: lease epoch, lease end, and whether plans are executed
    Shards(Basics),
    /// List the needs of clusters, or replace those of one
    ///
    /// Without a cluster it lists all, without needs it shows one. New needs replace the previous
    /// ones; a sudden drop is held back until it was sent three times
    Demand(demand::Flags),
    /// Print what the next planning cycle of a shard would do, and change nothing
    Plan(OneShard),
    /// Stop a shard from starting new operations; running ones finish
    Pause(OneShard),
    /// Resume a paused shard
    Resume(OneShard),
    /// Let a shard only log its plans, or execute them
    DryRun {
        /// Whether plans are only logged
        switch: OnOff,
        #[command(flatten)]
        shard: OneShard,
    },
    /// Resolve the conflict of a machine whose provider names another cluster
    Settle(Settle),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OnOff {
    /// Plans are only logged
    On,
    /// Plans are executed
    Off,
}

#[derive(Clone, clap::Args)]
struct OneShard {
    /// Id of the shard; optional if there is only one
    #[arg(long, value_name = "SHARD")]
    shard: Option<String>,
    #[command(flatten)]
    basics: Basics,
}

#[derive(clap::Args)]
#[group(id = "settlement", required = true, multiple = false, args = ["adopt", "drain"])]
struct Settle {
    /// Name or id of the machine
    #[arg(value_name = "NAME|ID")]
    machine: String,
    /// Accept the cluster that the provider names; the recorded cluster loses the machine
    #[arg(long)]
    adopt: bool,
    /// Reject the cluster that the provider names; the machine is drained
    #[arg(long)]
    drain: bool,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Shards(basics) => session(&basics, shards),
        Command::Demand(flags) => demand::run(flags),
        Command::Plan(which) => session(&which.basics.clone(), |it| plan::plan(it, which.shard)),
        Command::Pause(which) => {
            session(&which.basics.clone(), |it| brake(it, which.shard, Brake::Pause))
        }
        Command::Resume(which) => {
            session(&which.basics.clone(), |it| brake(it, which.shard, Brake::Resume))
        }
        Command::DryRun { switch, shard: which } => {
            let brake_on = Brake::DryRun(switch == OnOff::On);
            session(&which.basics.clone(), |it| brake(it, which.shard, brake_on))
        }
        Command::Settle(flags) => session(&flags.basics.clone(), |it| settle(it, flags)),
    }
}

async fn shards(session: Session) -> Result<(), CliError> {
    let items = session.all("/v1/fleet/shards").await?;
    session.list(&items, &["SHARD", "EPOCH", "HELD UNTIL", "SWITCH"], |it| {
        let text = |key: &str| cell(it.get(key).and_then(Value::as_str));
        let epoch = it.get("epoch").map(ToString::to_string);
        vec![text("id"), cell(epoch.as_deref()), text("held_until"), text("switch")]
    })
}

/// The shard of the flag, or the only one.
async fn chosen(session: &Session, said: Option<String>) -> Result<String, CliError> {
    if let Some(shard) = said {
        return Ok(shard);
    }
    let found: List<Shard> = session.client.read("/v1/fleet/shards").await?;
    let mut ids: Vec<String> = found.items.into_iter().map(|it| it.id).collect();
    if ids.len() > 1 {
        let list = ids.join("\n  ");
        return Err(CliError::usage(format!(
            "there are several shards: give --shard with one of\n  {list}"
        )));
    }
    ids.pop().ok_or_else(|| CliError::not_found("there is no shard: no server has started one yet"))
}

#[derive(Clone, Copy)]
enum Brake {
    Pause,
    Resume,
    DryRun(bool),
}

async fn brake(session: Session, said: Option<String>, brake: Brake) -> Result<(), CliError> {
    let shard = chosen(&session, said).await?;
    let path = format!("/v1/fleet/shards/{}", encoded(&shard));
    let (method, path, body) = match brake {
        Brake::Pause => (Method::POST, format!("{path}/pause"), None),
        Brake::Resume => (Method::POST, format!("{path}/resume"), None),
        Brake::DryRun(on) => (Method::PUT, format!("{path}/dry-run"), Some(json!({"on": on}))),
    };
    let value = session.client.call(method, &path, body.as_ref(), None).await?;
    let switch = match value["switch"].as_str() {
        Some("Paused") => "paused: no new operation starts",
        Some("DryRun") => "in a dry run: plans are only logged",
        Some("Run") => "running: plans are executed",
        Some(_) | None => "switched",
    };
    session.console.one(&value, || format!("shard {shard} is {switch}\n"))
}

async fn settle(session: Session, flags: Settle) -> Result<(), CliError> {
    let found = machine(&session, &flags.machine).await?;
    let settlement = if flags.adopt { "adopt" } else { "drain" };
    let path = format!("/v1/fleet/machines/{}/settle", found.id);
    let body = json!({"settlement": settlement});
    let value = session.client.call(Method::POST, &path, Some(&body), None).await?;
    let cluster = value["cluster"].as_str().unwrap_or("no cluster").to_owned();
    session.console.one(&value, || match settlement {
        "adopt" => format!("{} belongs to {cluster}\n", found.name),
        _ => format!("{} is drained from {cluster}\n", found.name),
    })
}

/// Resolves a name or an id. An id is exact; a name resolves to the newest machine of that name.
pub(super) async fn machine(session: &Session, text: &str) -> Result<Machine, CliError> {
    if is_id(text) {
        return Ok(session.client.read(&format!("/v1/fleet/machines/{text}")).await?);
    }
    let path = format!("/v1/fleet/machines?gone=true&name={}", encoded(text));
    let mut found: List<Machine> = session.client.read(&path).await?;
    if found.items.len() > 1 {
        let rows: Vec<Vec<String>> = found
            .items
            .iter()
            .map(|it| vec![it.provider.clone(), it.id.clone(), age(&it.phase_since)])
            .collect();
        let list = table(&["PROVIDER", "ID", "AGE"], &rows);
        return Err(CliError::usage(format!(
            "machine name \"{text}\" is ambiguous: give an id\n{list}"
        )));
    }
    found.items.pop().ok_or_else(|| CliError::not_found(format!("no machine is named \"{text}\"")))
}
