//! What a person can type.

mod completions;
mod failpoints;
mod keep_world;
mod migrate;
mod provider;
mod serve;
mod up;

use std::process::ExitCode;

use usher_cli::stop::Stop;
use usher_cli::verbs::Ask;
use usher_server::error::ServerError;
use usher_server::program::Role;

/// Provision nodes and tear them down completely
///
/// In order, completely, and with a reason for every wait
#[derive(clap::Parser)]
#[command(name = "usher", version, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// A verb with its arguments.
#[derive(clap::Subcommand)]
pub(crate) enum Verb {
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
    Ask(Ask),
    /// Print completions for a shell
    Completions(completions::Flags),
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
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Up(flags) => up::run(&flags, Role::Up),
            Self::Serve(flags) => serve::run(&flags),
            Self::Ask(ask) => ask.run(),
            Self::Completions(flags) => completions::run(&flags),
            Self::Agent(flags) => usher_agent::program::run(&flags),
            Self::Provider(flags) => provider::run(flags),
            Self::KeepWorld(flags) => keep_world::run(flags),
            Self::Failpoints => failpoints::run(),
            Self::Migrate(flags) => migrate::run(&flags),
        }
    }
}

/// The exit code of what ended a server.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn stop_of(error: ServerError) -> Stop {
    let text = error.to_string();
    match error {
        ServerError::Usage(_) => Stop::usage(text),
        ServerError::Refused(_) => Stop { code: 3, text },
        ServerError::Unavailable(_) => Stop::unavailable(text),
    }
}
