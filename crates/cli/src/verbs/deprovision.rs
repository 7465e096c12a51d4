//! `usher deprovision`: requests a resource's deletion.

use std::process::ExitCode;

use hyper::Method;
use usher_wire::operator::Resource;

use crate::console::Form;
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, run as session};
use crate::wait::{Waiting, until};

#[derive(clap::Args)]
pub struct Flags {
    /// Name or id of the resource
    #[arg(value_name = "NAME|ID")]
    resource: String,
    #[command(flatten)]
    project: InProject,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| deprovision(it, flags))
}

async fn deprovision(session: Session, flags: Flags) -> Result<(), CliError> {
    let found = session.resource(&flags.resource, flags.project.name().as_deref()).await?;
    let path = format!("/v1/resources/{}", found.id);
    let value = session.client.call(Method::DELETE, &path, None, None).await?;
    let resource: Resource = serde_json::from_value(value.clone())
        .map_err(|why| CliError::failed(format!("unexpected response of the server: {why}")))?;
    if !flags.waiting.wait {
        let Resource { name, phase, .. } = resource;
        return session.console.one(&value, || format!("{name} is {phase}\n"));
    }
    let ended = until(&session, resource, &["Deleted"], &flags.waiting).await?;
    match session.console.form {
        Form::Json => session.console.line(&serde_json::to_value(&ended).unwrap_or_default()),
        Form::Table => session.console.text(&format!("{} is {}\n", ended.name, ended.phase)),
    }
}
