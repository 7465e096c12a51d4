//! The commands that call a running server.

mod abandon;
mod blueprint;
mod cloud;
mod credential;
mod deprovision;
mod events;
mod fleet;
mod get;
mod key;
mod label;
mod orphans;
mod placement;
mod plan;
mod project;
mod provision;
mod receipt;
mod retry;
mod token;
mod why;

use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};
use usher_wire::operator::Resource;

use crate::client::encoded;
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, field};

/// The resource that a command is about.
#[derive(clap::Args)]
pub struct OneResource {
    /// Name or id of the resource
    #[arg(value_name = "NAME|ID")]
    resource: String,
    #[command(flatten)]
    project: InProject,
    #[command(flatten)]
    basics: Basics,
}

impl OneResource {
    async fn find(&self, session: &Session) -> Result<Resource, CliError> {
        session.resource(&self.resource, self.project.name().as_deref()).await
    }
}

/// A command that calls a running server.
#[derive(clap::Subcommand)]
pub enum Ask {
    /// Declare a node on a cloud from a blueprint
    ///
    /// Prints the id. With --wait it returns when the node is Ready (0) or Failed (1)
    Provision(provision::Flags),
    /// Request the deletion of a resource
    ///
    /// With --wait it prints each phase until the resource is Deleted
    Deprovision(deprovision::Flags),
    /// List objects, or show one
    Get(get::Flags),
    /// Explain the phase of a resource or a machine, what blocks it, and what to do
    ///
    /// `machine/NAME` names a machine
    Why(OneResource),
    /// Print what a command would do, and change nothing
    Plan(plan::Flags),
    /// Show every external name a resource ever had, and the evidence that it is gone
    ///
    /// A name means the newest resource of that name
    Receipt(receipt::Flags),
    /// Read the event log, or follow it
    Events(events::Flags),
    /// Reconcile a resource now, replace it, or reset the mass-deletion guard of a world
    Retry(retry::Flags),
    /// Abandon a resource whose world does not answer, with a reason
    Abandon(abandon::Flags),
    /// List external objects that have no owner
    Orphans(orphans::Flags),
    /// List shards, set the needs of clusters, pause and resume the fleet
    Fleet(fleet::Flags),
    /// Create or delete a project
    Project(project::Flags),
    /// Place a project on a world, or terminate its placement
    Placement(placement::Flags),
    /// Publish blueprints
    Blueprint(blueprint::Flags),
    /// Register or remove a cloud
    Cloud(cloud::Flags),
    /// Register, revoke or remove a credential, and assign it to projects
    Credential(credential::Flags),
    /// Show and rotate the keys that secrets are derived with
    Key(key::Flags),
    /// Read and write labels
    Label(label::Flags),
    /// Create, list and revoke operator tokens
    Token(token::Flags),
}

impl Ask {
    pub fn run(self) -> ExitCode {
        match self {
            Self::Provision(flags) => provision::run(flags),
            Self::Deprovision(flags) => deprovision::run(flags),
            Self::Get(flags) => get::run(flags),
            Self::Why(flags) => why::run(flags),
            Self::Plan(flags) => plan::run(flags),
            Self::Receipt(flags) => receipt::run(flags),
            Self::Events(flags) => events::run(flags),
            Self::Retry(flags) => retry::run(flags),
            Self::Abandon(flags) => abandon::run(flags),
            Self::Orphans(flags) => orphans::run(&flags),
            Self::Fleet(flags) => fleet::run(flags),
            Self::Project(flags) => project::run(flags),
            Self::Placement(flags) => placement::run(flags),
            Self::Blueprint(flags) => blueprint::run(flags),
            Self::Cloud(flags) => cloud::run(flags),
            Self::Credential(flags) => credential::run(flags),
            Self::Key(flags) => key::run(flags),
            Self::Label(flags) => label::run(flags),
            Self::Token(flags) => token::run(flags),
        }
    }
}

/// Creates an object and prints its id.
async fn create(session: &Session, path: &str, body: &Value) -> Result<(), CliError> {
    let value = session.client.call(Method::POST, path, Some(body), None).await?;
    session.console.one(&value, || format!("{}\n", field(&value, "id").unwrap_or_default()))
}

/// Deletes the object of this name or id from a collection.
async fn delete(session: &Session, collection: &str, name: &str) -> Result<(), CliError> {
    let path = format!("/v1/{collection}/{}", encoded(name));
    session.client.call(Method::DELETE, &path, None, None).await?;
    session.console.one(&json!({"deleted": name}), || format!("{name} deleted\n"))
}

fn understood<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, CliError> {
    serde_json::from_value(value)
        .map_err(|why| CliError::failed(format!("unexpected response of the server: {why}")))
}
