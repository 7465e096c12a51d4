//! `soak`: checks that take hours at their full size. They gate nothing.

use crate::failure::{Failure, Outcome};
use crate::repo::Repo;
use crate::{mutants, sim};

/// Runs one long check.
type Soak = fn(&Repo) -> Outcome;

/// Every long check by its name.
const SOAKS: [(&str, Soak); 2] = [("sim", soak_sim), ("mutants", mutants::run_all)];

/// Which check to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run this one: sim or mutants
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refusal = find("everything").unwrap_err();
        let sentence = "cannot soak \"everything\": choose one of sim, mutants";
        assert_eq!(refusal, Failure::told(sentence));
        assert!(find("sim").is_ok());
    }
}
