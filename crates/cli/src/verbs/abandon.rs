//! `usher abandon`: the sanctioned end of a resource whose world cannot answer.

use std::process::ExitCode;

use hyper::Method;
use serde_json::json;

use crate::session::{Basics, InProject, Session, run as session};
use crate::stop::Stop;

/// What is given up, and why.
#[derive(clap::Args)]
pub struct Flags {
    /// Its name or id
    #[arg(value_name = "NAME|ID")]
    resource: String,
    #[command(flatten)]
    project: InProject,
    /// Say why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| abandon(it, flags))
}

async fn abandon(session: Session, flags: Flags) -> Result<(), Stop> {
    let found = session.resource(&flags.resource, flags.project.name().as_deref()).await?;
    let path = format!("/v1/resources/{}/abandon", found.id);
    let body = json!({"reason": flags.reason});
    let value = session.client.call(Method::POST, &path, Some(&body), None).await?;
    let name = found.name;
    session
        .console
        .one(&value, || format!("{name} is given up; `usher orphans` names what may be left\n"))
}
