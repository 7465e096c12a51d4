//! What a person can type.

mod failpoints;
mod keep_world;

use std::process::ExitCode;

/// A verb with its arguments.
#[derive(clap::Subcommand)]
pub enum Verb {
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
}

impl Verb {
    /// Does it.
    pub fn run(self) -> ExitCode {
        match self {
            Self::Agent(flags) => usher_agent::program::run(&flags),
            Self::KeepWorld(flags) => keep_world::run(flags),
            Self::Failpoints => failpoints::run(),
        }
    }
}
