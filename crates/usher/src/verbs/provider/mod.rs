//! `usher provider`: machines for a fleet, and the conformance suite.

mod conformance;
mod host;
mod local;

use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Offer hosts on this machine: a host is a directory, its node a process
    Local(local::Flags),
    /// Run the conformance suite against a provider
    ///
    /// A behaviour that was not exercised does not pass: the verdict is INCOMPLETE
    Conformance(conformance::Flags),
    /// Hold the lock of a node, as a placeholder for an agent
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
