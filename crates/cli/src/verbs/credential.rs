//! `usher credential`: registers references to credentials, and assigns them to projects.

use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};

use super::{create, delete};
use crate::client::encoded;
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
    /// Register where a credential is stored; its value is never sent
    Create(Create),
    /// Revoke a credential
    Revoke(One),
    /// Remove a credential that no resource and no assignment uses
    Delete(One),
    /// Request a credential for a project
    Request(Both),
    /// Approve a project's request
    Approve(Both),
    /// Reject a project's request
    Reject(Both),
    /// Revoke an approved assignment
    Withdraw(Both),
    /// Remove an assignment
    Unassign(Both),
}

#[derive(clap::Args)]
struct Create {
    /// Name of the credential
    name: String,
    /// The cloud it was issued for
    #[arg(long)]
    cloud: String,
    /// Mount of the key-value store that holds it
    #[arg(long)]
    mount: String,
    /// Path below the mount
    #[arg(long)]
    path: String,
    /// When it expires, as RFC 3339 in UTC
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    #[command(flatten)]
    basics: Basics,
}

#[derive(clap::Args)]
struct One {
    /// Name or id of the credential
    credential: String,
    #[command(flatten)]
    basics: Basics,
}

#[derive(clap::Args)]
struct Both {
    /// Name or id of the credential
    credential: String,
    /// Slug or id of the project
    #[arg(long)]
    project: String,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Create(new) => {
            let body = json!({
                "name": new.name, "cloud": new.cloud, "mount": new.mount, "path": new.path,
                "expires_at": new.expires_at,
            });
            session(&new.basics, async |it| create(&it, "/v1/credentials", &body).await)
        }
        Command::Revoke(One { credential, basics }) => {
            let path = format!("/v1/credentials/{}/revoke", encoded(&credential));
            session(&basics, |it| ask(it, credential, (Method::POST, path), None))
        }
        Command::Delete(One { credential, basics }) => {
            session(&basics, async |it| delete(&it, "credentials", &credential).await)
        }
        Command::Request(both) => {
            let path = format!("/v1/projects/{}/assignments", encoded(&both.project));
            let body = Some(json!({"credential": both.credential}));
            session(&both.basics, |it| ask(it, both.credential, (Method::POST, path), body))
        }
        Command::Approve(both) => decide(both, Method::POST, "/approve"),
        Command::Reject(both) => decide(both, Method::POST, "/reject"),
        Command::Withdraw(both) => decide(both, Method::POST, "/revoke"),
        Command::Unassign(both) => decide(both, Method::DELETE, ""),
    }
}

fn decide(both: Both, method: Method, verdict: &str) -> ExitCode {
    let (project, name) = (encoded(&both.project), encoded(&both.credential));
    let path = format!("/v1/projects/{project}/assignments/{name}{verdict}");
    session(&both.basics, |it| ask(it, both.credential, (method, path), None))
}

async fn ask(
    session: Session,
    name: String,
    (method, path): (Method, String),
    body: Option<Value>,
) -> Result<(), CliError> {
    let value = session.client.call(method, &path, body.as_ref(), None).await?;
    if value.is_null() {
        return session.console.one(&json!({"deleted": name}), || format!("{name} deleted\n"));
    }
    let state = cell(field(&value, "state").or_else(|| field(&value, "status")));
    session.console.one(&value, || format!("{name} is {state}\n"))
}
