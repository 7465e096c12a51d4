//! `usher project`: creates and deletes projects.

use std::process::ExitCode;

use serde_json::json;

use super::{create, delete};
use crate::session::{Basics, run as session};

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
        Command::Create { slug, name, basics } => {
            let body = json!({"slug": slug, "name": name});
            session(&basics, async |it| create(&it, "/v1/projects", &body).await)
        }
        Command::Delete { project, basics } => {
            session(&basics, async |it| delete(&it, "projects", &project).await)
        }
    }
}
