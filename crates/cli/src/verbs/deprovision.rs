//! `usher deprovision`: requests a resource's deletion.

use std::process::ExitCode;

use hyper::Method;
use usher_wire::operator::Resource;

use super::{OneResource, understood};
use crate::error::CliError;
use crate::session::{Session, run as session};
use crate::wait::{Waiting, until};

#[derive(clap::Args)]
pub struct Flags {
    #[command(flatten)]
    about: OneResource,
    #[command(flatten)]
    waiting: Waiting,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.about.basics.clone(), |it| deprovision(it, flags))
}

async fn deprovision(session: Session, flags: Flags) -> Result<(), CliError> {
    let found = flags.about.find(&session).await?;
    let path = format!("/v1/resources/{}", found.id);
    let value = session.client.call(Method::DELETE, &path, None, None).await?;
    let resource: Resource = understood(value.clone())?;
    if !flags.waiting.wait {
        let Resource { name, phase, .. } = resource;
        return session.console.one(&value, || format!("{name} is {phase}\n"));
    }
    let ended = until(&session, resource, &["Deleted"], &flags.waiting).await?;
    session.console.one(&ended, || format!("{} is {}\n", ended.name, ended.phase))
}
