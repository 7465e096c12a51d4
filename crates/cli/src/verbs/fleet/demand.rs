//! `usher fleet demand`: reads and replaces the needs of clusters.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;
use usher_wire::operator::{Demand, DemandOutcome, Need, WriteDemand};

use super::super::understood;
use super::need;
use crate::client::encoded;
use crate::console::{age, cell, table};
use crate::error::CliError;
use crate::session::{Basics, Session, run as session};

/// The largest file that is read: the server's body limit.
const FILE_MAX: u64 = 1024 * 1024;

#[derive(clap::Args)]
pub(super) struct Flags {
    /// Name of the cluster
    cluster: Option<String>,
    /// Read the needs from this JSON file, `-` is standard input: {"needs": [...]}
    #[arg(short, long, value_name = "FILE", requires = "cluster", conflicts_with = "needs")]
    file: Option<PathBuf>,
    /// One need: total amounts, what each machine must have, and requirements on labels, as in
    /// `cpu=64,memory=256Gi,min.cpu=4,in.zone=a|b,priority=10`
    #[arg(long = "need", value_name = "NEED", requires = "cluster", value_parser = need::read)]
    needs: Vec<Need>,
    /// Remove all needs of the cluster
    #[arg(long, requires = "cluster", conflicts_with_all = ["needs", "file"])]
    nothing: bool,
    /// The shard whose machines serve it; required once if there are several shards
    #[arg(long, value_name = "SHARD", requires = "cluster")]
    shard: Option<String>,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| demand(it, flags))
}

async fn demand(session: Session, flags: Flags) -> Result<(), CliError> {
    let Some(cluster) = &flags.cluster else {
        let items = session.all("/v1/fleet/demand").await?;
        return session.list(&items, &["CLUSTER", "SHARD", "NEEDS", "HELD", "RECEIVED"], row);
    };
    let path = format!("/v1/fleet/demand/{}", encoded(cluster));
    let Some(body) = parse_demand(&flags)? else {
        let demand: Demand = session.client.read(&path).await?;
        return session.console.one(&demand, || shown(&demand.needs));
    };
    let body = serde_json::to_value(&body).unwrap_or_default();
    let value = session.client.call(Method::PUT, &path, Some(&body), None).await?;
    let received: DemandOutcome = understood(value.clone())?;
    session.console.one(&value, || outcome(&received))
}

/// The request body; `None` if the flags only read.
fn parse_demand(flags: &Flags) -> Result<Option<WriteDemand>, CliError> {
    let mut body = match &flags.file {
        Some(file) => parsed(&read(file)?, file)?,
        None if flags.needs.is_empty() && !flags.nothing => return Ok(None),
        None => WriteDemand { shard: None, needs: flags.needs.clone() },
    };
    if flags.shard.is_some() {
        body.shard.clone_from(&flags.shard);
    }
    Ok(Some(body))
}

fn parsed(text: &str, file: &Path) -> Result<WriteDemand, CliError> {
    let shown = file.display();
    serde_json::from_str(text)
        .map_err(|why| CliError::usage(format!("\"{shown}\" is not {{\"needs\": [...]}}: {why}")))
}

fn read(file: &Path) -> Result<String, CliError> {
    let shown = file.display();
    let fails = |why: std::io::Error| CliError::usage(format!("failed to read \"{shown}\": {why}"));
    let mut text = String::new();
    let size = if file == Path::new("-") {
        std::io::stdin().lock().take(FILE_MAX + 1).read_to_string(&mut text)
    } else {
        let opened = std::fs::File::open(file).map_err(fails)?;
        opened.take(FILE_MAX + 1).read_to_string(&mut text)
    };
    let size = size.map_err(fails)?;
    if u64::try_from(size).is_ok_and(|it| it > FILE_MAX) {
        return Err(CliError::usage(format!("\"{shown}\" is larger than 1 MiB")));
    }
    Ok(text)
}

fn outcome(received: &DemandOutcome) -> String {
    let Demand { cluster, shard, needs, .. } = &received.demand;
    let count = needs.len();
    if received.judged == "Held" {
        return format!(
            "held: the needs of {cluster} fell suddenly; the previous {count} needs stay until \
             the new ones were sent three times\n"
        );
    }
    format!("{cluster} has {count} needs, served by shard {shard}\n")
}

fn row(it: &Value) -> Vec<String> {
    let text = |key: &str| it.get(key).and_then(Value::as_str);
    let count = it.get("needs").and_then(Value::as_array).map_or(0, Vec::len);
    let held = if it.get("held") == Some(&Value::Bool(true)) { "yes" } else { "no" };
    let received = text("received_at").map(age);
    vec![
        cell(text("cluster")),
        cell(text("shard")),
        count.to_string(),
        held.to_owned(),
        cell(received.as_deref()),
    ]
}

fn shown(needs: &[Need]) -> String {
    let rows: Vec<Vec<String>> =
        needs.iter().map(|it| vec![it.priority.to_string(), need::written(it)]).collect();
    table(&["PRIORITY", "NEED"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_needs_is_parsed_or_refused() {
        let file = Path::new("needs.json");
        let read = parsed(r#"{"needs": [{"aggregate": {"cpu": "4"}}]}"#, file).unwrap();
        assert_eq!((read.needs.len(), read.shard), (1, None));
        for text in ["", "[]", r#"{"needs": [{"colour": 1}]}"#, r#"{"wants": []}"#] {
            let error = parsed(text, file).unwrap_err();
            assert_eq!(error.code, 2, "{text}");
        }
    }
}
