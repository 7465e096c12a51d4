//! `usher key`: the keys that secrets are derived with.

use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};

use crate::console::cell;
use crate::error::CliError;
use crate::session::{Basics, Session, field, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the keys, what names them, and which may be removed from the key file
    Show(Basics),
    /// Make a new key current; the other one is valid until nothing names it
    Rotate(Basics),
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Show(basics) => session(&basics, show),
        Command::Rotate(basics) => session(&basics, rotate),
    }
}

async fn show(session: Session) -> Result<(), CliError> {
    print(&session, &session.client.get("/v1/keys").await?)
}

async fn rotate(session: Session) -> Result<(), CliError> {
    let keys = session.client.get("/v1/keys").await?;
    let mut known = keys["items"].as_array().into_iter().flatten();
    let current = known.find(|it| field(it, "state") == Some("current"));
    let body = json!({ "from": current.and_then(|it| field(it, "id")).unwrap_or_default() });
    let path = "/v1/keys/rotate";
    print(&session, &session.client.call(Method::POST, path, Some(&body), None).await?)
}

fn print(session: &Session, keys: &Value) -> Result<(), CliError> {
    let items = keys["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let heads = ["KEY", "STATE", "SINCE", "TOKENS", "NODES", "FILE"];
    session.list(items, &heads, |it| {
        let since =
            [field(it, "retired_at"), field(it, "superseded_at"), field(it, "current_since")];
        let file = match (it["held"] == true, it["removable"] == true) {
            (true, false) => "held",
            (true, true) => "may be removed",
            (false, false) => "MISSING",
            (false, true) => "removed",
        };
        vec![
            cell(field(it, "id")),
            cell(field(it, "state")),
            cell(since.into_iter().flatten().next()),
            it["tokens"].to_string(),
            it["nodes"].to_string(),
            file.to_owned(),
        ]
    })
}
