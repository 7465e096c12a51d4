//! The command line.

mod apiserver;
mod completions;
mod crds;
mod failpoints;
mod keep_world;
mod migrate;
mod provider;
mod serve;
mod up;

use std::process::ExitCode;

use usher_cli::error::CliError;
use usher_cli::verbs::Ask;
use usher_server::error::ServerError;
use usher_server::program::Role;

/// Provision nodes and tear them down completely
///
/// In order, completely, and with a reason for every wait
#[derive(clap::Parser)]
#[command(name = "usher", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(clap::Subcommand)]
pub(crate) enum Verb {
    /// Run everything on this machine, with an embedded database
    ///
    /// The first start creates a demo project, a credential and a blueprint, and prints what to
    /// type next. State survives a restart and a kill
    Up(up::Flags),
    /// Run a production server on PostgreSQL
    ///
    /// It never migrates the schema: `usher migrate` does
    Serve(up::Flags),
    /// The commands that call a running server.
    #[command(flatten)]
    Ask(Ask),
    /// Print completions for a shell
    Completions(completions::Flags),
    /// Run the agent of a node
    ///
    /// It enrols with its bootstrap token, sends heartbeats, and leaves when the node is drained
    Agent(usher_agent::Flags),
    /// Offer machines to a fleet, or run the conformance suite against a provider
    Provider(provider::Flags),
    /// Run the embedded Kubernetes API server alone, for tests of controllers
    ///
    /// It serves custom resources and the built-in kinds that controllers need, with garbage
    /// collection, admission and access rights, and runs no pods
    Apiserver(apiserver::Flags),
    /// Print the custom resource definitions that Usher needs on a cluster
    ///
    /// As a stream of YAML documents. To install them: usher crds | kubectl apply -f -
    Crds,
    /// Run a local world without a server
    #[command(hide = true)]
    KeepWorld(keep_world::Flags),
    /// List the failpoints
    #[command(hide = true)]
    Failpoints,
    /// Migrate the schema of a database up to this version, or revert migrations
    ///
    /// The migrations of one run are one transaction. `usher serve`
    /// never migrates the schema and refuses one of another version
    Migrate(migrate::Flags),
}

impl Verb {
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Up(flags) => up::run(&flags, Role::Up),
            Self::Serve(flags) => serve::run(&flags),
            Self::Ask(ask) => ask.run(),
            Self::Completions(flags) => completions::run(&flags),
            Self::Agent(flags) => usher_agent::program::run(&flags),
            Self::Provider(flags) => provider::run(flags),
            Self::Apiserver(flags) => apiserver::run(&flags),
            Self::Crds => crds::run(),
            Self::KeepWorld(flags) => keep_world::run(flags),
            Self::Failpoints => failpoints::run(),
            Self::Migrate(flags) => migrate::run(&flags),
        }
    }
}

/// The exit code of a server's error.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn stop_of(error: ServerError) -> CliError {
    let text = error.to_string();
    match error {
        ServerError::Usage(_) => CliError::usage(text),
        ServerError::Refused(_) => CliError { code: 3, text },
        ServerError::Unavailable(_) => CliError::unavailable(text),
    }
}
