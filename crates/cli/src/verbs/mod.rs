//! What a person can type.

mod failpoints;
mod keep_world;
mod migrate;
mod serve;
mod up;

use std::process::ExitCode;

use crate::serve::program::Role;

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
    /// Run the agent of a node
    ///
    /// It enrols with its bootstrap token, says that the node lives, and leaves when it is told to
    Agent(usher_agent::Flags),
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
            Self::Agent(flags) => usher_agent::program::run(&flags),
            Self::KeepWorld(flags) => keep_world::run(flags),
            Self::Failpoints => failpoints::run(),
            Self::Migrate(flags) => migrate::run(&flags),
        }
    }
}
