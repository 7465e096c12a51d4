//! `usher orphans`: external objects that have no owner.

use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;

use crate::console::cell;
use crate::error::CliError;
use crate::session::{Basics, Session, field, run as session};

#[derive(clap::Args)]
pub struct Flags {
    /// Tear down those that are reapable, and list them
    #[arg(long)]
    reap: bool,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: &Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| orphans(it, flags.reap))
}

async fn orphans(session: Session, reap: bool) -> Result<(), CliError> {
    let items = if reap {
        let value = session.client.call(Method::POST, "/v1/orphans/reap", None, None).await?;
        value.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
    } else {
        session.all("/v1/orphans").await?
    };
    let heads = ["WORLD", "KIND", "NAME", "RESOURCE", "CAUSE", "REAPABLE"];
    session.list(&items, &heads, |it| {
        let reapable = if it["reapable"] == true { "yes" } else { "no" };
        let row = ["world", "kind", "name", "resource", "cause"].map(|name| cell(field(it, name)));
        row.into_iter().chain([reapable.to_owned()]).collect()
    })
}
