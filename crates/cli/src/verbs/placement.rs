//! `usher placement`: places projects on worlds.

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
    /// Place a project on a world
    Create {
        /// Slug or id of the project
        project: String,
        /// The world
        #[arg(long)]
        world: String,
        #[command(flatten)]
        basics: Basics,
    },
    /// Terminate a placement that has no resources
    Terminate {
        /// Slug or id of the project
        project: String,
        #[command(flatten)]
        basics: Basics,
    },
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Create { project, world, basics } => {
            session(&basics, |it| place(it, project, world))
        }
        Command::Terminate { project, basics } => session(&basics, |it| terminate(it, project)),
    }
}

async fn place(session: Session, project: String, world: String) -> Result<(), CliError> {
    let path = format!("/v1/projects/{}/placement", encoded(&project));
    let body = json!({"world": world});
    let value = session.client.call(Method::PUT, &path, Some(&body), None).await?;
    session.console.one(&value, || format!("{project} is placed on {world}\n"))
}

async fn terminate(session: Session, project: String) -> Result<(), CliError> {
    let path = format!("/v1/projects/{}/placement", encoded(&project));
    let value = session.client.call(Method::DELETE, &path, None, None).await?;
    let phase = cell(field(&value, "phase"));
    session.console.one(&value, || format!("the placement of {project} is {phase}\n"))
}
