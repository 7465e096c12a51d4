//! The verbs that ask a running server.

mod abandon;
mod blueprint;
mod cloud;
mod credential;
mod deprovision;
mod events;
mod fleet;
mod get;
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

/// A verb that asks a running server.
#[derive(clap::Subcommand)]
pub enum Ask {
    /// Declare a node on a cloud from a blueprint
    ///
    /// Prints the id. With --wait it ends when the node is Ready (0) or Failed (1)
    Provision(provision::Flags),
    /// Ask for a resource's deletion
    ///
    /// With --wait it shows each crossing until the resource is Deleted
    Deprovision(deprovision::Flags),
    /// List things, or look at one
    Get(get::Flags),
    /// Say why a resource or a machine is where it is, who holds it, and what to do
    Why(why::Flags),
    /// Say what an order would do, and change nothing
    Plan(plan::Flags),
    /// Show every outside name a resource ever had, and the evidence that it is gone
    Receipt(receipt::Flags),
    /// Read the log of events, or follow it
    Events(events::Flags),
    /// Reconcile a resource now, make it anew, or reset the mass-deletion guard of a world
    Retry(retry::Flags),
    /// Give a resource up, with a reason, although its world cannot answer
    Abandon(abandon::Flags),
    /// List what stands outside and has no owner
    Orphans(orphans::Flags),
    /// Look at the machine fleet, say what clusters need, and stop it
    Fleet(fleet::Flags),
    /// Make or end a project
    Project(project::Flags),
    /// Place a project on a world, or ask the placement to end
    Placement(placement::Flags),
    /// Publish blueprints
    Blueprint(blueprint::Flags),
    /// Enter or remove a cloud
    Cloud(cloud::Flags),
    /// Enter, withdraw or remove a credential, and say which project may use it
    Credential(credential::Flags),
    /// Read and write labels
    Label(label::Flags),
    /// Make, list and withdraw operators' tokens
    Token(token::Flags),
}

impl Ask {
    /// Does it.
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
            Self::Label(flags) => label::run(flags),
            Self::Token(flags) => token::run(flags),
        }
    }
}
