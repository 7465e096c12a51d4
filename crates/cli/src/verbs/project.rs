//! `usher project`: creates and deletes projects.

use std::process::ExitCode;

use hyper::Method;
use serde_json::json;

use crate::client::encoded;
use crate::error::CliError;
use crate::session::{Basics, Session, field, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Create a project
    Create {
        /// Its slug, a DNS label
        slug: String,
        /// Display name [default: the slug]
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        basics: Basics,
    },
    /// Delete a project that has no resources
    Delete {
        /// Slug or id of the project
        project: String,
        #[command(flatten)]
        basics: Basics,
    },
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Create { slug, name, basics } => session(&basics, |it| create(it, slug, name)),
        Command::Delete { project, basics } => session(&basics, |it| delete(it, project)),
    }
}

async fn create(session: Session, slug: String, name: Option<String>) -> Result<(), CliError> {
    let body = json!({"slug": slug, "name": name});
    let value = session.client.call(Method::POST, "/v1/projects", Some(&body), None).await?;
    session.console.one(&value, || format!("{}\n", field(&value, "id").unwrap_or_default()))
}

async fn delete(session: Session, project: String) -> Result<(), CliError> {
    let path = format!("/v1/projects/{}", encoded(&project));
    session.client.call(Method::DELETE, &path, None, None).await?;
    session.console.one(&json!({"deleted": project}), || format!("{project} deleted\n"))
}
