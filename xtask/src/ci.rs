//! `ci`: every check but the tests, in the order of their price.

use std::time::Instant;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::parts::Parts;
use crate::repo::{Repo, shown};
use crate::{generate, requirements, tidy};

/// The seeds a change must survive, each world for about the same time. The joined worlds are too
/// slow for as many seeds as coverage counts from; that is asked of longer runs.
const WORLDS: [(&str, &str); 5] = [
    ("broker", "6000"),
    ("usage", "3000"),
    ("direct", "20000"),
    ("fleet", "6000"),
    ("combined", "1500"),
];

/// What must build without anything that the others bring along.
const ALONE: [&str; 3] = ["usher-kernel", "usher-domain", "usher-wire"];

/// A named check.
struct Step {
    name: String,
    /// What to type to run it alone.
    command: String,
    run: Box<dyn Fn(&Repo) -> Outcome>,
}

/// Runs every check, stops at the first that fails, and prints what took how long.
pub(crate) fn run(repo: &Repo) -> Outcome {
    let (steps, mut parts) = (steps(), Parts::new("ci"));
    let outcome = run_steps(repo, &steps, &mut parts);
    let end = if outcome.is_ok() { "passed" } else { "stopped" };
    parts.close(repo, &format!("{} steps {end}", steps.len()));
    outcome
}

fn run_steps(repo: &Repo, steps: &[Step], parts: &mut Parts) -> Outcome {
    for (index, step) in steps.iter().enumerate() {
        output::say(format_args!("── {}/{} {}", index + 1, steps.len(), step.name));
        let begun = Instant::now();
        let outcome = (step.run)(repo);
        let took = begun.elapsed();
        parts.add(&step.name, took, if outcome.is_ok() { "" } else { "failed" });
        outcome.map_err(|failure| explained(step, failure, took.as_secs_f64()))?;
    }
    Ok(())
}

fn explained(step: &Step, failure: Failure, took: f64) -> Failure {
    let cause = match failure {
        Failure::Message(sentence) => format!("{sentence}\n"),
        Failure::Exit(_) => String::new(),
    };
    Failure::message(format!(
        "{cause}ci: {} failed after {took:.1} s; run it alone with: {}",
        step.name, step.command
    ))
}

fn steps() -> Vec<Step> {
    let doc_env: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-D warnings")];
    let mut steps = vec![
        cargo("format", &["fmt", "--all", "--check"], &[]),
        own("tidy", "cargo xtask tidy", tidy::run),
        own("generated files", "cargo xtask generate --check", generate::check),
        own("requirements", "cargo xtask requirements --check", requirements::check),
        cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]),
    ];
    for member in ALONE {
        steps.push(cargo(&format!("{member} alone"), &["check", "--package", member], &[]));
    }
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    steps.push(cargo("documents of the code", &doc, doc_env));
    // Without a server the tests of the store skip half of themselves; here that is a failure.
    // The whole workspace is named so that nothing is built again with fewer features.
    let server = ["test", "--workspace", "--test", "private"];
    steps.push(cargo("PostgreSQL for tests", &server, &[("USHER_TEST_POSTGRES", "required")]));
    let hostile = ["test", "--workspace", "--lib", "--test", "hostile", "--", "panic"];
    steps.push(cargo("hostile input", &hostile, &[("PROPTEST_CASES", "1024")]));
    // The tests have built it, with the rules optimised and every assertion in place.
    steps.push(cargo("the simulation", &["build", "--workspace", "--bin", "usher-sim"], &[]));
    for (world, seeds) in WORLDS {
        steps.push(simulated(&format!("simulated {world}"), &["--world", world, "--seeds", seeds]));
    }
    steps.push(simulated("breakages", &["--breakages"]));
    steps
}

fn simulated(name: &str, words: &[&'static str]) -> Step {
    let words = words.to_vec();
    let command = format!("cargo xtask sim {}", words.join(" "));
    let run = move |repo: &Repo| repo.built("usher-sim", &words);
    Step { name: name.to_owned(), command, run: Box::new(run) }
}

fn cargo(name: &str, args: &[&str], env: &[(&str, &str)]) -> Step {
    let command = shown(args, env);
    let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
    let env: Vec<(String, String)> =
        env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let run = move |repo: &Repo| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let env: Vec<_> = env.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        repo.cargo(&args, &env)
    };
    Step { name: name.to_owned(), command, run: Box::new(run) }
}

fn own(name: &str, command: &str, run: fn(&Repo) -> Outcome) -> Step {
    Step { name: name.to_owned(), command: command.to_owned(), run: Box::new(run) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: H-16
    #[test]
    fn the_rules_are_checked_alone() {
        let steps = steps();
        let alone: Vec<_> = steps.iter().filter(|step| step.name.ends_with("alone")).collect();
        assert_eq!(alone.len(), ALONE.len());
        assert_eq!(alone[0].command, "cargo check --package usher-kernel");
    }

    // Requirement: H-16
    #[test]
    fn the_first_failure_stops_the_run_and_names_its_command() {
        let repo = Repo::find().unwrap();
        let step = |name: &str, run| own(name, &format!("cargo xtask {name}"), run);
        let failing = step("broken", |_| Err(Failure::message("it is broken")));
        let unreached = step("unreached", |_| Err(Failure::Exit(9)));
        let steps = [step("fine", |_| Ok(())), failing, unreached];
        let outcome = run_steps(&repo, &steps, &mut Parts::new("ci"));
        let Err(Failure::Message(sentence)) = outcome else { panic!("{outcome:?}") };
        assert!(sentence.starts_with("it is broken\nci: broken failed after "), "{sentence}");
        assert!(sentence.ends_with("run it alone with: cargo xtask broken"), "{sentence}");
    }
}
