//! `sim`: simulated resources, by the runner in `usher-sim`.

use crate::failure::Outcome;
use crate::repo::Repo;

/// The seeds a person waits for.
const SEEDS: u64 = 5_000;

/// Which seeds to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run this many seeds
    #[arg(long, value_name = "N", conflicts_with_all = ["seed", "breakages"])]
    seeds: Option<u64>,
    /// Run this one seed
    #[arg(long, value_name = "N", requires = "world", conflicts_with = "breakages")]
    seed: Option<u64>,
    /// Print every step of the seed
    #[arg(long, requires = "seed", conflicts_with_all = ["seeds", "breakages"])]
    trace: bool,
    /// Run in this simulated world, else in every one
    #[arg(long)]
    world: Option<String>,
    /// Break the rules on purpose, one by one, and name what notices
    #[arg(long)]
    breakages: bool,
    /// Pass these words on to the runner
    #[arg(last = true)]
    rest: Vec<String>,
}

/// Runs the simulation; its exit code passes through.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    let words = words(args);
    runner(repo, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Runs the runner of `usher-sim` with these words.
pub(crate) fn runner(repo: &Repo, words: &[&str]) -> Outcome {
    repo.cargo(&[&["run", "--release", "--package", "usher-sim", "--"], words].concat(), &[])
}

fn words(args: &Args) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(world) = &args.world {
        words.extend(["--world".to_owned(), world.clone()]);
    }
    if args.breakages {
        words.push("--breakages".to_owned());
    } else if let Some(seed) = args.seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    } else {
        words.extend(["--seeds".to_owned(), args.seeds.unwrap_or(SEEDS).to_string()]);
    }
    if args.trace {
        words.push("--trace".to_owned());
    }
    words.extend(args.rest.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    // Requirement: S-2
    #[test]
    fn flags_reach_the_runner() {
        let cases = [
            ("sim", "--seeds 5000"),
            ("sim --seeds 7", "--seeds 7"),
            ("sim --world broker --seed 7 --trace", "--world broker --seed 7 --trace"),
            ("sim --world pc --breakages", "--world pc --breakages"),
            ("sim --seeds 7 -- --quiet", "--seeds 7 --quiet"),
        ];
        for (typed, passed) in cases {
            let line = Line::try_parse_from(typed.split(' ')).unwrap();
            assert_eq!(words(&line.args).join(" "), passed, "{typed}");
        }
    }

    // Requirement: S-2
    #[test]
    fn a_trace_needs_one_seed_and_a_seed_its_world() {
        for typed in
            ["sim --trace", "sim --seeds 5 --trace", "sim --seed 1 --seeds 2", "sim --seed 1"]
        {
            assert!(Line::try_parse_from(typed.split(' ')).is_err(), "{typed}");
        }
    }
}
