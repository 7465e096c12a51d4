//! `soak`: checks that take hours at their full size. They gate nothing.

use crate::failure::{Failure, Outcome};
use crate::repo::Repo;
use crate::{mutants, sim};

/// Runs one long check.
type Soak = fn(&Repo) -> Outcome;

/// Every long check by its name.
const SOAKS: [(&str, Soak); 7] = [
    ("sim", soak_sim),
    ("mutants", mutants::run_all),
    ("store", soak_store),
    ("walk", soak_walk),
    ("flood", soak_flood),
    ("fleet", soak_fleet),
    ("apiserver", soak_apiserver),
];

/// The tests of the store that grow with these variables, and their values.
const STORE_TESTS: [&str; 3] =
    ["soak::a_killed_writer", "log::sixteen_writers", "simulated::simulated_lives"];
const STORE_SIZES: [(&str, &str); 4] = [
    ("USHER_TEST_POSTGRES", "required"),
    ("USHER_SOAK_ROUNDS", "100"),
    ("USHER_STORM_SECONDS", "30"),
    ("USHER_SIMULATED_LIVES", "3000"),
];

/// The tests of the real binary that grow with these variables, and their values.
const WALK_TESTS: [&str; 3] = ["kills::", "many::", "rest::"];
const WALK_SIZES: [(&str, &str); 7] = [
    ("USHER_TEST_POSTGRES", "required"),
    ("USHER_SOAK_PASSINGS", "3"),
    ("USHER_SOAK_WALKS", "50"),
    ("USHER_SOAK_KILLS", "200"),
    ("USHER_SOAK_RESOURCES", "500"),
    ("USHER_SOAK_RESTING", "1000"),
    ("USHER_SOAK_REST_SECONDS", "600"),
];

/// The test of connections that grows with these variables, and their values.
const FLOOD_TESTS: [&str; 1] = ["flood::"];
const FLOOD_SIZES: [(&str, &str); 4] = [
    ("USHER_SOAK_DESCRIPTORS", "512"),
    ("USHER_SOAK_CONNECTIONS", "2000"),
    ("USHER_SOAK_FLOOD_SECONDS", "60"),
    ("USHER_SOAK_FLOOD_WALKS", "50"),
];

/// The tests of shards and providers that grow with these variables, and their values.
const FLEET_TESTS: [&str; 1] = ["kills::"];
const PROVIDER_TESTS: [&str; 1] = ["crash::"];
const FLEET_SIZES: [(&str, &str); 3] = [
    ("USHER_SOAK_PASSINGS", "12"),
    ("USHER_SOAK_LIFECYCLES", "1000"),
    ("USHER_SOAK_PROVIDER_KILLS", "100"),
];

/// The test of the API server that grows with its setting, and the setting.
const API_SERVER_TESTS: [&str; 1] = ["every_acknowledged_write_survives_a_kill"];
const API_SERVER_SIZES: [(&str, &str); 1] = [("USHER_SOAK_ROUNDS", "50")];

/// Which check to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run this one: sim, mutants, store, walk, flood, fleet or apiserver
    name: String,
}

/// Runs the named check.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    find(&args.name)?(repo)
}

fn find(name: &str) -> Result<Soak, Failure> {
    let known = || SOAKS.map(|(name, _)| name).join(", ");
    SOAKS.iter().find(|(known, _)| *known == name).map(|(_, soak)| *soak).ok_or_else(|| {
        Failure::message(format!("cannot soak \"{name}\": choose one of {}", known()))
    })
}

fn soak_sim(repo: &Repo) -> Outcome {
    sim::runner(repo, &["--seeds", "2000000"])
}

/// Writers that are killed, many writers and readers at once, and simulated resources on SQLite:
/// one after another, so that none disturbs another's clock.
fn soak_store(repo: &Repo) -> Outcome {
    soak_tests(repo, &["--workspace", "--test", "store"], &STORE_TESTS, &STORE_SIZES)
}

/// Servers that are killed at every failpoint and at any moment while nodes are provisioned and
/// torn down, three servers of which one is always killed, and many idle nodes.
fn soak_walk(repo: &Repo) -> Outcome {
    let words = ["--release", "--package", "usher", "--test", "walk"];
    soak_tests(repo, &words, &WALK_TESTS, &WALK_SIZES)
}

/// Half-open and slow connections against a server with few descriptors, while nodes are
/// provisioned and torn down.
fn soak_flood(repo: &Repo) -> Outcome {
    let words = ["--release", "--package", "usher", "--test", "walk"];
    soak_tests(repo, &words, &FLOOD_TESTS, &FLOOD_SIZES)
}

/// Providers, and shards with their providers, that are killed at every failpoint and at any moment
/// while machines come and go.
fn soak_fleet(repo: &Repo) -> Outcome {
    let words = ["--release", "--package", "usher-provider", "--test", "provider"];
    soak_tests(repo, &words, &PROVIDER_TESTS, &FLEET_SIZES)?;
    let words = ["--release", "--package", "usher", "--test", "fleet"];
    soak_tests(repo, &words, &FLEET_TESTS, &FLEET_SIZES)
}

/// API servers that are killed during concurrent writes.
fn soak_apiserver(repo: &Repo) -> Outcome {
    let words = ["--release", "--package", "usher-apiserver", "--test", "crash"];
    soak_tests(repo, &words, &API_SERVER_TESTS, &API_SERVER_SIZES)
}

fn soak_tests(repo: &Repo, words: &[&str], tests: &[&str], sizes: &[(&str, &str)]) -> Outcome {
    for test in tests {
        let how = ["--", test, "--nocapture", "--test-threads", "1"];
        repo.cargo(&[&["test"], words, &how].concat(), sizes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refusal = find("everything").unwrap_err();
        let sentence = "cannot soak \"everything\": choose one of sim, mutants, store, walk, \
                        flood, fleet, apiserver";
        assert_eq!(refusal, Failure::message(sentence));
        assert!(find("sim").is_ok());
    }
}
