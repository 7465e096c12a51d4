//! `usher cloud`: registers and removes clouds.

use std::process::ExitCode;

use hyper::Method;
use serde_json::{Map, Value, json};

use super::provision::pair;
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
        Command::Create(new) => session(&new.basics.clone(), |it| create(it, new)),
        Command::Delete { cloud, basics } => session(&basics, |it| delete(it, cloud)),
    }
}

async fn create(session: Session, new: Create) -> Result<(), CliError> {
    let endpoint: Map<String, Value> =
        new.endpoint.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
    let body = json!({"name": new.name, "provider": new.provider, "endpoint": endpoint});
    let value = session.client.call(Method::POST, "/v1/clouds", Some(&body), None).await?;
    session.console.one(&value, || format!("{}\n", field(&value, "id").unwrap_or_default()))
}

async fn delete(session: Session, cloud: String) -> Result<(), CliError> {
    let path = format!("/v1/clouds/{}", encoded(&cloud));
    session.client.call(Method::DELETE, &path, None, None).await?;
    session.console.one(&json!({"deleted": cloud}), || format!("{cloud} deleted\n"))
}
