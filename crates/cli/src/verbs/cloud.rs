//! `usher cloud`: registers and removes clouds.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde_json::json;

use super::provision::pair;
use super::{create, delete};
use crate::session::{Basics, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Register a cloud
    Create(Create),
    /// Remove a cloud that has no credentials
    Delete {
        /// Name or id of the cloud
        cloud: String,
        #[command(flatten)]
        basics: Basics,
    },
}

#[derive(clap::Args)]
struct Create {
    /// Name of the cloud
    name: String,
    /// Provider: aws, azure, gcp, hetzner, openstack or local
    #[arg(long)]
    provider: String,
    /// Where its API is reached, e.g. a region or a URL; never a secret
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    endpoint: Vec<(String, String)>,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Create(new) => {
            let endpoint: BTreeMap<String, String> = new.endpoint.into_iter().collect();
            let body = json!({"name": new.name, "provider": new.provider, "endpoint": endpoint});
            session(&new.basics, async |it| create(&it, "/v1/clouds", &body).await)
        }
        Command::Delete { cloud, basics } => {
            session(&basics, async |it| delete(&it, "clouds", &cloud).await)
        }
    }
}
