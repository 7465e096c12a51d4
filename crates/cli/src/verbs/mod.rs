//! What a person can type.

mod abandon;
mod ask;
mod blueprint;
mod cloud;
mod completions;
mod credential;
mod deprovision;
mod events;
mod failpoints;
mod fleet;
mod get;
mod keep_world;
mod label;
mod migrate;
mod orphans;
mod placement;
mod plan;
mod project;
mod provider;
mod provision;
mod receipt;
mod retry;
mod serve;
mod token;
mod up;
mod why;

use std::process::ExitCode;

use crate::serve::program::Role;

/// Bring infrastructure in and show it out again
///
/// In order, completely, and with a reason for every wait
#[derive(clap::Parser)]
#[command(name = "usher", version, arg_required_else_help = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// A verb with its arguments.
#[derive(clap::Subcommand)]
pub enum Verb {
    /// Run everything on this machine, with everything embedded
    ///
    /// The first start makes a project, a credential and a blueprint to try. It prints what to type
    /// next. State survives a restart and a kill
    Up(up::Flags),
    /// Run a server for production, on a PostgreSQL of its own
    ///
    /// It never migrates by itself: `usher migrate` does
    Serve(up::Flags),
    /// What a running server is asked.
    #[command(flatten)]
    Ask(ask::Ask),
    /// Run the agent of a node
    ///
    /// It enrols with its bootstrap token, says that the node lives, and leaves when it is told to
    Agent(usher_agent::Flags),
    /// Offer machines to a fleet, or ask a provider what every provider must do
    Provider(provider::Flags),
    /// Keep a local world going without a server
    #[command(hide = true)]
    KeepWorld(keep_world::Flags),
    /// List the failpoints
    #[command(hide = true)]
    Failpoints,
    /// Bring the schema of a database up to this program's, or take it back
    ///
    /// The migrations of one run are one transaction: all of them happen, or none. `usher serve`
    /// never migrates by itself and refuses a schema that is not its own
    Migrate(migrate::Flags),
}

impl Verb {
    /// Does it.
    pub fn run(self) -> ExitCode {
        match self {
            Self::Up(flags) => up::run(&flags, Role::Up),
            Self::Serve(flags) => serve::run(&flags),
            Self::Ask(ask) => ask.run(),
            Self::Agent(flags) => usher_agent::program::run(&flags),
            Self::Provider(flags) => provider::run(flags),
            Self::KeepWorld(flags) => keep_world::run(flags),
            Self::Failpoints => failpoints::run(),
            Self::Migrate(flags) => migrate::run(&flags),
        }
    }
}
