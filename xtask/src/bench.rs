//! `bench`: measurements, printed as tables. They gate nothing.

use crate::failure::{Failure, Outcome};
use crate::repo::Repo;
use crate::sim;

const API_SERVER: Bench =
    Bench::Cargo(&["bench", "--package", "usher-apiserver", "--bench", "apiserver", "--"]);
const PROVIDER: Bench =
    Bench::Cargo(&["bench", "--package", "usher-provider", "--bench", "provider", "--"]);

/// Every measurement by its name, and what runs it.
const BENCHES: [(&str, Bench); 8] = [
    ("apiserver", API_SERVER),
    ("broker", Bench::Cargo(&["bench", "--package", "usher", "--bench", "broker", "--"])),
    ("cluster", Bench::Cargo(&["bench", "--package", "usher-cluster", "--bench", "cluster", "--"])),
    ("fleet", Bench::Cargo(&["bench", "--package", "usher-fleet", "--bench", "fleet", "--"])),
    ("kernel", Bench::Sim(&["bench", "kernel"])),
    ("provider", PROVIDER),
    ("rules", Bench::Sim(&["bench", "rules"])),
    ("store", Bench::Cargo(&["bench", "--package", "usher-store", "--bench", "store", "--"])),
];

/// What runs a measurement, with its words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bench {
    /// The runner of the simulation.
    Sim(&'static [&'static str]),
    /// Cargo.
    Cargo(&'static [&'static str]),
}

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure this: apiserver, broker, cluster, fleet, kernel, provider, rules, store
    #[arg(default_value = "kernel")]
    name: String,
    /// Pass these words on to the measurement
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the named measurement.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let rest: Vec<&str> = args.rest.iter().map(String::as_str).collect();
    match find(&args.name)? {
        Bench::Sim(words) => sim::runner(repo, &[words, &rest].concat()),
        Bench::Cargo(words) => repo.cargo(&[words, &rest].concat(), &[]),
    }
}

fn find(name: &str) -> Result<Bench, Failure> {
    let known = || BENCHES.map(|(name, _)| name).join(", ");
    BENCHES.iter().find(|(known, _)| *known == name).map(|(_, bench)| *bench).ok_or_else(|| {
        Failure::message(format!("cannot measure \"{name}\": choose one of {}", known()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let sentence = "cannot measure \"speed\": choose one of apiserver, broker, cluster, fleet, \
            kernel, provider, rules, store";
        assert_eq!(find("speed"), Err(Failure::message(sentence)));
        assert_eq!(find("kernel"), Ok(Bench::Sim(&["bench", "kernel"])));
    }
}
