//! `usher get`: lists objects, or shows one.

use std::process::ExitCode;

use serde_json::{Value, json};
use usher_wire::operator::List;

use crate::client::encoded;
use crate::console::{age, cell, table};
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, field, run as session};

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// Declared resources
    #[value(alias = "resource")]
    Resources,
    /// Enrolled nodes
    #[value(alias = "node")]
    Nodes,
    /// Machines of the fleet
    #[value(alias = "machine")]
    Machines,
    /// Blueprints to declare resources from
    #[value(alias = "blueprint")]
    Blueprints,
    /// Registered clouds
    #[value(alias = "cloud")]
    Clouds,
    /// Registered credentials
    #[value(alias = "credential")]
    Credentials,
    /// Projects
    #[value(alias = "project")]
    Projects,
    /// Placements of projects on worlds
    #[value(alias = "placement")]
    Placements,
    /// Bootstrap tokens
    #[value(alias = "token")]
    Tokens,
    /// Credentials that a project may use
    #[value(alias = "assignment")]
    Assignments,
    /// Mass-deletion guards that tripped
    #[value(alias = "guard")]
    Guards,
    /// The audit log: which actor did what
    Audit,
}

#[derive(clap::Args)]
pub struct Flags {
    /// What to list
    kind: Kind,
    /// Only this one, by name or id
    name: Option<String>,
    #[command(flatten)]
    project: InProject,
    /// Include deleted resources, deregistered nodes and machines that are gone
    #[arg(long)]
    all: bool,
    /// Print one page of at most this many
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: Option<u32>,
    /// Start the page after this cursor
    #[arg(long, value_name = "CURSOR", requires = "limit")]
    after: Option<String>,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| get(it, flags))
}

async fn get(session: Session, flags: Flags) -> Result<(), CliError> {
    let project = flags.project.name();
    let project = project.as_deref();
    if let Some(name) = &flags.name {
        let value = one(&session, &flags, (name, project)).await?;
        let shown = table(heads(flags.kind), &[row(flags.kind, &value)]);
        return session.console.one(&value, || shown);
    }
    let path = listing(flags.kind, project, flags.all)?;
    let Some(limit) = flags.limit else {
        let items = session.all(&path).await?;
        return session.list(&items, heads(flags.kind), |it| row(flags.kind, it));
    };
    let join = if path.contains('?') { '&' } else { '?' };
    let after = flags.after.map(|it| format!("&after={}", encoded(&it))).unwrap_or_default();
    let page: List<Value> =
        session.client.read(&format!("{path}{join}limit={limit}{after}")).await?;
    let rows: Vec<_> = page.items.iter().map(|it| row(flags.kind, it)).collect();
    let value = json!({"items": page.items, "next_cursor": page.next_cursor});
    session.console.one(&value, || table(heads(flags.kind), &rows))
}

fn listing(kind: Kind, project: Option<&str>, all: bool) -> Result<String, CliError> {
    let within = |path: &str| match project {
        Some(project) => {
            let join = if path.contains('?') { '&' } else { '?' };
            format!("{path}{join}project={}", encoded(project))
        }
        None => path.to_owned(),
    };
    Ok(match kind {
        Kind::Resources => within(&format!("/v1/resources?deleted={all}")),
        Kind::Nodes => within(&format!("/v1/nodes?all={all}")),
        Kind::Machines => format!("/v1/fleet/machines?gone={all}"),
        Kind::Tokens => within("/v1/tokens"),
        Kind::Blueprints => "/v1/blueprints".to_owned(),
        Kind::Clouds => "/v1/clouds".to_owned(),
        Kind::Credentials => "/v1/credentials".to_owned(),
        Kind::Projects => "/v1/projects".to_owned(),
        Kind::Placements => "/v1/placements".to_owned(),
        Kind::Guards => "/v1/guards".to_owned(),
        Kind::Audit => "/v1/audit".to_owned(),
        Kind::Assignments => {
            let which = || CliError::usage("assignments are listed per project: give --project");
            format!("/v1/projects/{}/assignments", encoded(project.ok_or_else(which)?))
        }
    })
}

/// One object by name. A kind without a path by name is searched in its listing.
async fn one(
    session: &Session,
    flags: &Flags,
    (name, project): (&str, Option<&str>),
) -> Result<Value, CliError> {
    let path = match flags.kind {
        Kind::Resources => {
            let found = session.resource(name, project).await?;
            return Ok(serde_json::to_value(found).unwrap_or_default());
        }
        Kind::Machines => {
            let found = super::fleet::machine(session, name).await?;
            return Ok(serde_json::to_value(found).unwrap_or_default());
        }
        Kind::Blueprints | Kind::Clouds | Kind::Credentials | Kind::Projects => {
            format!("{}/{}", listing(flags.kind, project, flags.all)?, encoded(name))
        }
        Kind::Placements => format!("/v1/projects/{}/placement", encoded(name)),
        Kind::Nodes | Kind::Tokens | Kind::Assignments | Kind::Guards | Kind::Audit => {
            let items = session.all(&listing(flags.kind, project, flags.all)?).await?;
            return only(name, items);
        }
    };
    Ok(session.client.get(&path).await?)
}

fn only(name: &str, items: Vec<Value>) -> Result<Value, CliError> {
    let called = |it: &Value| {
        ["id", "name", "credential", "world"].iter().any(|key| field(it, key) == Some(name))
    };
    let mut meant: Vec<Value> = items.into_iter().filter(called).collect();
    if meant.len() > 1 {
        let ids: Vec<&str> = meant.iter().filter_map(|it| field(it, "id")).collect();
        let ids = ids.join("\n  ");
        return Err(CliError::usage(format!(
            "name \"{name}\" is ambiguous: give one of these ids\n  {ids}"
        )));
    }
    meant.pop().ok_or_else(|| CliError::not_found(format!("nothing is named \"{name}\"")))
}

/// The columns of a kind: headings and field names.
const fn columns(kind: Kind) -> (&'static [&'static str], &'static [&'static str]) {
    match kind {
        Kind::Resources => (
            &["NAME", "PROJECT", "PHASE", "REASON", "NODE", "BLUEPRINT", "AGE", "ID"],
            &["name", "project", "phase", "reason", "node", "blueprint", "created_at", "id"],
        ),
        Kind::Nodes => (
            &["NAME", "STAGE", "LIVENESS", "VERSION", "AGE", "ID"],
            &["name", "stage", "liveness", "agent_version", "registered_at", "id"],
        ),
        Kind::Machines => (
            &["NAME", "PROVIDER", "PHASE", "REASON", "CLUSTER", "TYPE", "AGE", "ID"],
            &[
                "name",
                "provider",
                "phase",
                "reason",
                "cluster",
                "instance_type",
                "phase_since",
                "id",
            ],
        ),
        Kind::Blueprints => (&["NAME", "ID"], &["name", "id"]),
        Kind::Clouds => (&["NAME", "PROVIDER", "ID"], &["name", "provider", "id"]),
        Kind::Credentials => (
            &["NAME", "CLOUD", "PROVIDER", "STATUS", "ID"],
            &["name", "cloud", "provider", "status", "id"],
        ),
        Kind::Projects => (&["SLUG", "NAME", "ID"], &["slug", "name", "id"]),
        Kind::Placements => (
            &["PROJECT", "WORLD", "PHASE", "NAMESPACE"],
            &["project", "world", "phase", "namespace"],
        ),
        Kind::Tokens => (
            &["ID", "STATE", "AGE", "RESOURCE", "NODE"],
            &["id", "state", "issued_at", "resource", "node"],
        ),
        Kind::Assignments => (
            &["CREDENTIAL", "STATE", "REQUESTED BY", "DECIDED BY"],
            &["credential", "state", "requested_by", "decided_by"],
        ),
        Kind::Guards => (&["WORLD", "TRIPPED"], &["world", "tripped_at"]),
        Kind::Audit => {
            (&["AT", "ACTOR", "ACTION", "SUBJECT"], &["at", "actor", "action", "subject"])
        }
    }
}

const fn heads(kind: Kind) -> &'static [&'static str] {
    columns(kind).0
}

fn row(kind: Kind, value: &Value) -> Vec<String> {
    let (heads, fields) = columns(kind);
    let cells = heads.iter().zip(fields).map(|(head, name)| match (*head, field(value, name)) {
        ("AGE", Some(time)) => age(time),
        (_, text) => cell(text),
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_column_has_a_head_and_a_field() {
        for kind in Kind::value_variants() {
            let (heads, fields) = columns(*kind);
            assert_eq!(heads.len(), fields.len(), "{kind:?}");
        }
    }

    #[test]
    fn an_ambiguous_name_is_refused() {
        let node = |id: &str| json!({"id": id, "name": "web-1"});
        assert_eq!(only("web-1", vec![node("a"), node("b")]).unwrap_err().code, 2);
        assert_eq!(only("b", vec![node("a"), node("b")]).unwrap(), node("b"));
        assert_eq!(only("c", vec![node("a")]).unwrap_err().code, 4);
    }
}
