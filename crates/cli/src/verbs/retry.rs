//! `usher retry`: looks at a resource now, makes it anew, or opens the rail of a world.

use std::process::ExitCode;

use hyper::Method;
use usher_wire::operator::Resource;

use crate::client::encoded;
use crate::session::{Basics, InProject, Session, run as session};
use crate::stop::Stop;

/// What is tried again.
#[derive(clap::Args)]
pub struct Flags {
    /// Its name or id
    #[arg(value_name = "NAME|ID", required_unless_present = "rail")]
    resource: Option<String>,
    #[command(flatten)]
    project: InProject,
    /// Show the old generation out and make a new one
    #[arg(long)]
    replace: bool,
    /// Open the rail of this world, and believe again that what is absent is gone
    #[arg(long, value_name = "WORLD", conflicts_with_all = ["resource", "replace"])]
    rail: Option<String>,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| retry(it, flags))
}

async fn retry(session: Session, flags: Flags) -> Result<(), Stop> {
    if let Some(world) = &flags.rail {
        let path = format!("/v1/guards/{}/reset", encoded(world));
        let value = session.client.call(Method::POST, &path, None, None).await?;
        return session.console.one(&value, || format!("the rail of {world} is open\n"));
    }
    let name = flags.resource.unwrap_or_default();
    let found = session.resource(&name, flags.project.name().as_deref()).await?;
    let verb = if flags.replace { "replace" } else { "retry" };
    let path = format!("/v1/resources/{}/{verb}", found.id);
    let value = session.client.call(Method::POST, &path, None, None).await?;
    let Resource { name, phase, .. } = found;
    session.console.one(&value, || format!("{name} is looked at, in {phase}\n"))
}
