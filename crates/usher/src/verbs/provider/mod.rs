//! `usher provider`: machines for a fleet, and what every provider of them must do.

mod conformance;
mod host;
mod local;

use std::process::ExitCode;

/// What about providers.
#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Offer machines of this machine: a host is a directory, its node a process
    Local(local::Flags),
    /// Ask a provider what every provider must do
    ///
    /// What was not exercised is never passed: it leaves the whole INCOMPLETE
    Conformance(conformance::Flags),
    /// Stand for a node that nobody knows how to start
    #[command(hide = true)]
    Host(host::Flags),
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.verb {
        Verb::Local(flags) => local::run(&flags),
        Verb::Conformance(flags) => conformance::run(&flags),
        Verb::Host(flags) => host::run(&flags),
    }
}
