//! `usher token`: operator tokens. The secret is printed once.

use std::process::ExitCode;

use hyper::Method;
use serde_json::json;

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
    /// Create a token and print its secret, once
    Create(Create),
    /// List tokens, without their secrets
    List(Basics),
    /// Revoke a token
    Revoke {
        /// Id of the token
        id: String,
        #[command(flatten)]
        basics: Basics,
    },
}

#[derive(clap::Args)]
struct Create {
    /// Name of the token
    name: String,
    /// Role: viewer, operator or admin
    #[arg(long)]
    role: String,
    /// Restrict it to this project
    #[arg(long)]
    project: Option<String>,
    /// When it expires, as RFC 3339 in UTC
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Create(new) => session(&new.basics.clone(), |it| create(it, new)),
        Command::List(basics) => session(&basics, list),
        Command::Revoke { id, basics } => session(&basics, |it| revoke(it, id)),
    }
}

async fn create(session: Session, new: Create) -> Result<(), CliError> {
    let body = json!({
        "name": new.name, "role": new.role, "project": new.project, "expires_at": new.expires_at,
    });
    let path = "/v1/operator-tokens";
    let value = session.client.call(Method::POST, path, Some(&body), None).await?;
    session.console.one(&value, || format!("{}\n", field(&value, "text").unwrap_or_default()))
}

async fn list(session: Session) -> Result<(), CliError> {
    let items = session.all("/v1/operator-tokens").await?;
    let heads = ["NAME", "ROLE", "PROJECT", "EXPIRES", "REVOKED", "ID"];
    let fields = ["name", "role", "project", "expires_at", "revoked_at", "id"];
    session.list(&items, &heads, |it| fields.iter().map(|name| cell(field(it, name))).collect())
}

async fn revoke(session: Session, id: String) -> Result<(), CliError> {
    let path = format!("/v1/operator-tokens/{}", encoded(&id));
    session.client.call(Method::DELETE, &path, None, None).await?;
    session.console.one(&json!({"revoked": id}), || format!("{id} revoked\n"))
}
