//! `usher plan deprovision`: the steps of a deletion, in order; it changes nothing.

use std::process::ExitCode;

use usher_wire::operator::{Plan, PlanStep};

use super::why::held;
use crate::console::{cell, table};
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the steps of a deletion, in order, and what would block it
    Deprovision(Deprovision),
}

#[derive(clap::Args)]
struct Deprovision {
    /// Name or id of the resource
    #[arg(value_name = "NAME|ID")]
    resource: String,
    #[command(flatten)]
    project: InProject,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    let Command::Deprovision(command) = flags.command;
    session(&command.basics.clone(), |it| plan(it, command))
}

async fn plan(session: Session, command: Deprovision) -> Result<(), CliError> {
    let found = session.resource(&command.resource, command.project.name().as_deref()).await?;
    let plan: Plan = session.client.read(&format!("/v1/resources/{}/plan", found.id)).await?;
    let value = serde_json::to_value(&plan).unwrap_or_default();
    session.console.one(&value, || shown(&plan))
}

fn shown(plan: &Plan) -> String {
    let row = |(at, it): (usize, &PlanStep)| {
        let name = it.name.as_ref().map(|it| format!("{} {}", it.kind, it.name));
        vec![
            (at + 1).to_string(),
            it.phase.clone(),
            cell(it.effect.as_deref()),
            cell(name.as_deref()),
            it.reason.clone(),
        ]
    };
    let rows: Vec<_> = plan.steps.iter().enumerate().map(row).collect();
    let mut out = table(&["STEP", "PHASE", "EFFECT", "NAME", "REASON"], &rows);
    if !plan.blockers.is_empty() {
        out.push_str("\nBlocked by\n");
        out.push_str(&held(&plan.blockers));
    }
    out
}
