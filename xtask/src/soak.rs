//! `soak`: checks that take hours at their full size. They gate nothing.

use crate::failure::{Failure, Outcome};
use crate::repo::Repo;
use crate::{mutants, sim};

/// Runs one long check.
type Soak = fn(&Repo) -> Outcome;

/// Every long check by its name.
const SOAKS: [(&str, Soak); 3] =
    [("sim", soak_sim), ("mutants", mutants::run_all), ("store", soak_store)];

/// The tests of the store that grow with their figures, and the figures.
const STORE_TESTS: [&str; 3] =
    ["soak::a_killed_writer", "log::sixteen_writers", "simulated::simulated_lives"];
const STORE_FIGURES: [(&str, &str); 4] = [
    ("USHER_TEST_POSTGRES", "required"),
    ("USHER_SOAK_ROUNDS", "100"),
    ("USHER_STORM_SECONDS", "30"),
    ("USHER_SIMULATED_LIVES", "3000"),
];

/// Which check to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run this one: sim, mutants or store
    name: String,
}

/// Runs the named check.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    find(&args.name)?(repo)
}

fn find(name: &str) -> Result<Soak, Failure> {
    let known = || SOAKS.map(|(name, _)| name).join(", ");
    SOAKS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, soak)| *soak)
        .ok_or_else(|| Failure::told(format!("cannot soak \"{name}\": choose one of {}", known())))
}

fn soak_sim(repo: &Repo) -> Outcome {
    sim::runner(repo, &["--seeds", "2000000"])
}

/// Writers that are killed, a storm of writers and readers, and simulated lives on SQLite: one
/// after another, so that none disturbs another's clock.
fn soak_store(repo: &Repo) -> Outcome {
    for test in STORE_TESTS {
        let words = ["test", "--package", "usher-store", "--test", "store", "--", test];
        repo.cargo(&[&words[..], &["--nocapture"]].concat(), &STORE_FIGURES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refusal = find("everything").unwrap_err();
        let sentence = "cannot soak \"everything\": choose one of sim, mutants, store";
        assert_eq!(refusal, Failure::told(sentence));
        assert!(find("sim").is_ok());
    }
}
