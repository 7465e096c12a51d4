//! Compares the embedded server with a real one: random requests, and the commands of kubectl.
//!
//! `cargo xtask real` starts the real server and names its kubeconfig in `USHER_REAL_KUBECONFIG`;
//! without it nothing is compared. Answers are compared after the rules of [`symbols`]; where the
//! embedded server differs on purpose, [`deviations`] says why.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

mod commands;
mod compare;
mod deviations;
mod generate;
mod kubectl;
mod objects;
mod planted;
mod play;
mod random;
mod request;
mod run;
mod scenes;
mod side;
mod symbols;
mod world;

use std::io::Write as _;

/// Names the kubeconfig of the real server.
const KUBECONFIG: &str = "USHER_REAL_KUBECONFIG";

/// Says one line.
fn say(line: &str) {
    writeln!(std::io::stderr(), "{line}").expect("a reader");
}

/// A setting of the lane.
#[expect(clippy::disallowed_methods, reason = "tests have no Config")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The kubeconfig of the real server; without one it says that the test is skipped.
fn kubeconfig() -> Option<String> {
    let path = setting(KUBECONFIG);
    if path.is_none() {
        say("skipped: there is no real server; cargo xtask real starts one");
    }
    path
}

fn number(name: &str, default: u64) -> u64 {
    setting(name).and_then(|text| text.parse().ok()).unwrap_or(default)
}

// Requirement: AK-80
#[tokio::test(flavor = "multi_thread")]
async fn random_requests_get_the_answers_of_a_real_server() {
    let Some(kubeconfig) = kubeconfig() else { return };
    let (seed, seeds) = (number("USHER_REAL_SEED", 1), number("USHER_REAL_SEEDS", 20));
    let differences = run::seeds(&kubeconfig, seed, seeds).await;
    assert_eq!(differences, 0, "the embedded server differs from the real one");
}

// Requirement: AK-81
#[tokio::test(flavor = "multi_thread")]
async fn commands_of_kubectl_end_alike() {
    let Some(kubeconfig) = kubeconfig() else { return };
    let differing = run::commands(&kubeconfig).await;
    assert_eq!(differing, 0, "kubectl says something else with the embedded server");
}

// Requirement: AK-86
#[tokio::test(flavor = "multi_thread")]
async fn planted_defects_are_found() {
    let Some(names) = setting("USHER_PLANTED") else {
        say("skipped: nothing is planted; cargo xtask real differential --planted does that");
        return;
    };
    let names: Vec<&str> = names.split(';').collect();
    let missed = planted::missed(&names).await;
    assert!(missed.is_empty(), "not found: {missed:?}");
}
