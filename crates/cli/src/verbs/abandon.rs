//! `usher abandon`: ends a resource whose world does not answer, with a reason for the audit log.

use std::process::ExitCode;

use hyper::Method;
use serde_json::json;

use super::OneResource;
use crate::error::CliError;
use crate::session::{Session, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(flatten)]
    about: OneResource,
    /// Reason, kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.about.basics.clone(), |it| abandon(it, flags))
}

async fn abandon(session: Session, flags: Flags) -> Result<(), CliError> {
    let found = flags.about.find(&session).await?;
    let path = format!("/v1/resources/{}/abandon", found.id);
    let body = json!({"reason": flags.reason});
    let value = session.client.call(Method::POST, &path, Some(&body), None).await?;
    let name = found.name;
    session
        .console
        .one(&value, || format!("{name} is abandoned; `usher orphans` lists what may be left\n"))
}
