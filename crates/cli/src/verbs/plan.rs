//! `usher plan deprovision`: the steps of a deletion, in order; it changes nothing.

use std::process::ExitCode;

use usher_wire::operator::{Plan, PlanStep};

use super::OneResource;
use super::why::blocked;
use crate::console::{cell, table};
use crate::error::CliError;
use crate::session::{Session, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the steps of a deletion, in order, and what would block it
    Deprovision(OneResource),
}

pub(super) fn run(flags: Flags) -> ExitCode {
    let Command::Deprovision(about) = flags.command;
    session(&about.basics.clone(), |it| plan(it, about))
}

async fn plan(session: Session, about: OneResource) -> Result<(), CliError> {
    let found = about.find(&session).await?;
    let plan: Plan = session.client.read(&format!("/v1/resources/{}/plan", found.id)).await?;
    session.console.one(&plan, || shown(&plan))
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
        out.push('\n');
    }
    out + &blocked(&plan.blockers)
}
