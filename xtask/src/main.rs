//! Repository chores, one file per verb.
//!
//! It is independent so that a broken product can still be examined: it reads files and runs cargo,
//! and `real` the programs of a real Kubernetes.
//!
//! **Invariants**
//! - None of our crates is imported.
//! - Nothing is written outside `docs`, the generated code of `crates/wire`, the target directory
//!   and the cache of programs that `real` builds.

mod bench;
mod ci;
mod failure;
mod generate;
mod lines;
mod loaded;
mod modules;
mod mutants;
mod output;
mod parts;
mod programs;
mod real;
mod repo;
mod requirements;
mod rust;
mod sim;
mod soak;
mod table;
mod test;
mod tidy;
mod tree;
mod wire;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::{Failure, Outcome};
use repo::Repo;

/// Do the repository's chores
#[derive(Parser)]
#[command(name = "xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run every test of every crate, and print what failed last
    Test(test::Args),
    /// Run tests many times beside busy loops and count the failures
    Loaded(loaded::Args),
    /// Run every check but the tests, stopping at the first that fails
    Ci,
    /// Check what the compiler does not: crate edges, sizes, names, documents
    Tidy,
    /// Write what is made from other files: charts, the tests of requirements, documents, gRPC code
    Generate(generate::Args),
    /// Count the requirements and compare them with the tags on the tests
    Requirements(requirements::Args),
    /// Count the lines of code of every crate
    Lines,
    /// Run simulated resources, one per seed
    Sim(sim::Args),
    /// Run a long check at its full size
    Soak(soak::Args),
    /// Measure
    Bench(bench::Args),
    /// Run a real Kubernetes here, and compare the embedded API server with it
    Real(real::Args),
    /// Break the broker's rules one by one and count what the tests notice
    Mutants(mutants::Args),
}

fn main() -> ExitCode {
    match run(Args::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Exit(code)) => ExitCode::from(code),
        Err(Failure::Message(sentence)) => {
            output::complain(sentence);
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Outcome {
    let repo = Repo::find()?;
    match verb {
        Verb::Test(args) => test::run(&repo, &args),
        Verb::Loaded(args) => loaded::run(&repo, &args),
        Verb::Ci => ci::run(&repo),
        Verb::Tidy => tidy::run(&repo),
        Verb::Generate(args) => generate::run(&repo, &args),
        Verb::Requirements(args) => requirements::run(&repo, &args),
        Verb::Lines => lines::run(&repo),
        Verb::Sim(args) => sim::run(&repo, &args),
        Verb::Soak(args) => soak::run(&repo, &args),
        Verb::Bench(args) => bench::run(&repo, &args),
        Verb::Real(args) => real::run(&repo, &args),
        Verb::Mutants(args) => mutants::run(&repo, &args),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_verb_has_an_imperative_help_without_a_full_stop() {
        let command = Args::command();
        command.clone().debug_assert();
        for verb in command.get_subcommands() {
            let about = verb.get_about().unwrap().to_string();
            assert!(!about.ends_with('.'), "{about}");
            assert!(about.starts_with(char::is_uppercase), "{about}");
            for argument in verb.get_arguments() {
                let help = argument.get_help().unwrap().to_string();
                assert!(!help.ends_with('.'), "{help}");
            }
        }
    }
}
