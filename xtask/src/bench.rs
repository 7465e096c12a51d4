//! `bench`: measurements, printed as tables. They gate nothing.

use crate::failure::{Failure, Outcome};
use crate::repo::Repo;
use crate::sim;

/// Every measurement by its name, with the runner's words for it.
const BENCHES: [(&str, &[&str]); 2] =
    [("kernel", &["bench", "kernel"]), ("rules", &["bench", "rules"])];

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure this: kernel, rules
    #[arg(default_value = "kernel")]
    name: String,
    /// Pass these words on to the measurement
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the named measurement.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let mut words = find(&args.name)?.to_vec();
    words.extend(args.rest.iter().map(String::as_str));
    sim::runner(repo, &words)
}

fn find(name: &str) -> Result<&'static [&'static str], Failure> {
    let known = || BENCHES.map(|(name, _)| name).join(", ");
    BENCHES.iter().find(|(known, _)| *known == name).map(|(_, words)| *words).ok_or_else(|| {
        Failure::told(format!("cannot measure \"{name}\": choose one of {}", known()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let sentence = "cannot measure \"speed\": choose one of kernel, rules";
        assert_eq!(find("speed"), Err(Failure::told(sentence)));
        assert_eq!(find("kernel"), Ok(["bench", "kernel"].as_slice()));
    }
}
