//! `usher label`: labels of the installation, of projects and of resources.

use std::collections::BTreeMap;
use std::process::ExitCode;

use hyper::Method;
use serde_json::json;

use super::provision::pair;
use crate::client::encoded;
use crate::console::table;
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, run as session};

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the labels of one layer
    Get(Layer),
    /// Replace the labels of one layer
    Set {
        #[command(flatten)]
        layer: Layer,
        /// The complete set of labels
        #[arg(value_name = "KEY=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
    },
    /// Set whether labels of a key are propagated as cloud tags
    Define {
        /// The label key
        key: String,
        /// Propagate them
        #[arg(long)]
        propagatable: bool,
        #[command(flatten)]
        basics: Basics,
    },
    /// List the label keys and whether they are propagated
    Definitions(Basics),
}

#[derive(clap::Args)]
struct Layer {
    /// Labels of this resource; without it those of the project, else of the installation
    #[arg(long, value_name = "NAME|ID")]
    resource: Option<String>,
    #[command(flatten)]
    project: InProject,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Get(layer) => session(&layer.basics.clone(), |it| labels(it, layer, None)),
        Command::Set { layer, labels: wanted } => {
            session(&layer.basics.clone(), |it| labels(it, layer, Some(wanted)))
        }
        Command::Define { key, propagatable, basics } => {
            session(&basics, |it| define(it, key, propagatable))
        }
        Command::Definitions(basics) => session(&basics, definitions),
    }
}

async fn labels(
    session: Session,
    layer: Layer,
    wanted: Option<Vec<(String, String)>>,
) -> Result<(), CliError> {
    let project = layer.project.name();
    let path = match (&layer.resource, &project) {
        (Some(name), project) => {
            let id = session.resource(name, project.as_deref()).await?.id;
            format!("/v1/resources/{id}/labels")
        }
        (None, Some(project)) => format!("/v1/projects/{}/labels", encoded(project)),
        (None, None) => "/v1/labels".to_owned(),
    };
    let value = match wanted {
        None => session.client.get(&path).await?,
        Some(labels) => {
            let body = json!({"labels": BTreeMap::from_iter(labels)});
            session.client.call(Method::PUT, &path, Some(&body), None).await?
        }
    };
    let rows: Vec<Vec<String>> = value["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| vec![key.clone(), value.as_str().unwrap_or_default().to_owned()])
        .collect();
    session.console.one(&value, || table(&["KEY", "VALUE"], &rows))
}

async fn define(session: Session, key: String, propagatable: bool) -> Result<(), CliError> {
    let body = json!({"key": key, "propagatable": propagatable});
    let path = "/v1/label-definitions";
    let value = session.client.call(Method::PUT, path, Some(&body), None).await?;
    let word = if propagatable { "are propagated" } else { "are not propagated" };
    session.console.one(&value, || format!("labels of {key} {word}\n"))
}

async fn definitions(session: Session) -> Result<(), CliError> {
    let value = session.client.get("/v1/label-definitions").await?;
    let items = value["items"].as_array().cloned().unwrap_or_default();
    session.list(&items, &["KEY", "PROPAGATABLE"], |it| {
        let word = if it["propagatable"] == true { "yes" } else { "no" };
        vec![it["key"].as_str().unwrap_or_default().to_owned(), word.to_owned()]
    })
}
