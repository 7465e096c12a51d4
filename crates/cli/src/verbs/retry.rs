//! `usher retry`: reconciles a resource now, replaces it, or resets a mass-deletion guard.

use std::process::ExitCode;

use hyper::Method;
use usher_wire::operator::Resource;

use crate::client::encoded;
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, run as session};

#[derive(clap::Args)]
pub struct Flags {
    /// Name or id of the resource
    #[arg(value_name = "NAME|ID", required_unless_present = "reset_guard")]
    resource: Option<String>,
    #[command(flatten)]
    project: InProject,
    /// Tear the current generation down and create a new one
    #[arg(long)]
    replace: bool,
    /// Reset the mass-deletion guard of this world: absent objects count as gone again
    #[arg(long, value_name = "WORLD", conflicts_with_all = ["resource", "replace"])]
    reset_guard: Option<String>,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| retry(it, flags))
}

async fn retry(session: Session, flags: Flags) -> Result<(), CliError> {
    if let Some(world) = &flags.reset_guard {
        let path = format!("/v1/guards/{}/reset", encoded(world));
        let value = session.client.call(Method::POST, &path, None, None).await?;
        let done = || format!("the mass-deletion guard of {world} is reset\n");
        return session.console.one(&value, done);
    }
    let name = flags.resource.unwrap_or_default();
    let found = session.resource(&name, flags.project.name().as_deref()).await?;
    let verb = if flags.replace { "replace" } else { "retry" };
    let path = format!("/v1/resources/{}/{verb}", found.id);
    let value = session.client.call(Method::POST, &path, None, None).await?;
    let Resource { name, phase, .. } = found;
    session.console.one(&value, || format!("{name} is reconciled now, in {phase}\n"))
}
