//! `differential` and `test`: the comparison is a test program of the API server's crate.

use std::path::Path;

use super::lane;
use super::peers::{KUBECTL, Place};
use crate::failure::{Failure, Outcome};
use crate::repo::Repo;

/// How many seeds `test` compares.
const FEW: u64 = 50;

/// Which requests to send.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many seeds
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// Begin with this seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plant defects in a copy of the embedded server instead, and look for each of them
    #[arg(long, conflicts_with_all = ["seeds", "seed"])]
    pub(super) planted: bool,
}

/// Sends random requests to both servers.
pub(super) fn differential(repo: &Repo, args: &Args) -> Outcome {
    with_cluster(repo, |kubeconfig| requests(repo, kubeconfig, (args.seed, args.seeds)))
}

/// Compares a few seeds, and the output of kubectl.
pub(super) fn a_few_seeds_and_kubectl(repo: &Repo) -> Outcome {
    with_cluster(repo, |kubeconfig| {
        let own = Place::find()?.program(KUBECTL);
        let random = requests(repo, kubeconfig, (1, FEW));
        let env =
            [("USHER_REAL_KUBECONFIG", text(kubeconfig)?), ("USHER_REAL_KUBECTL", text(&own)?)];
        let commands = program(repo, "commands_of_kubectl_end_alike", &env);
        random.and(commands)
    })
}

fn requests(repo: &Repo, kubeconfig: &Path, (seed, seeds): (u64, u64)) -> Outcome {
    let env = [
        ("USHER_REAL_KUBECONFIG", text(kubeconfig)?),
        ("USHER_REAL_SEED", &seed.to_string()),
        ("USHER_REAL_SEEDS", &seeds.to_string()),
    ];
    program(repo, "random_requests_get_the_answers_of_a_real_server", &env)
}

/// Runs one test of the program that compares.
fn program(repo: &Repo, test: &str, env: &[(&str, &str)]) -> Outcome {
    let words = ["test", "--workspace", "--test", "differential"];
    repo.cargo(&[&words[..], &["--", "--exact", test, "--nocapture"]].concat(), env)
}

/// Starts the lane if it does not run, and then stops it again.
fn with_cluster(repo: &Repo, deed: impl FnOnce(&Path) -> Outcome) -> Outcome {
    let cluster = lane::up(repo)?;
    let outcome = deed(&cluster.kubeconfig);
    if cluster.is_new {
        lane::down(repo)?;
    }
    outcome
}

fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| Failure::message(format!("{} is not Unicode", path.display())))
}
