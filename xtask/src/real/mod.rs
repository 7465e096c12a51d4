//! `real`: a real Kubernetes on this computer, with which the embedded API server is compared.
//! It gates nothing.

mod build;
mod certificates;
mod compare;
mod defects;
mod lane;
mod peers;
mod planted;
mod processes;
pub(crate) mod sides;
mod start;

use crate::failure::Outcome;
use crate::repo::Repo;

/// Names another cluster, which is used in place of the lane's own.
const OTHER_CLUSTER: &str = "USHER_TEST_KUBECONFIG";

/// What to do with the lane.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Build what is missing, start etcd and Kubernetes on loopback, and print the kubeconfig
    Up,
    /// Stop the processes of the lane and remove its data
    Down,
    /// Print what runs
    Status,
    /// Send random requests to the real and to the embedded server and compare the answers
    Differential(compare::Args),
    /// Compare a few seeds and the output of kubectl
    Test,
}

/// Does it.
pub(crate) fn run(repo: &Repo, args: &Args) -> Outcome {
    match &args.verb {
        Verb::Up => lane::up(repo).map(|_| ()),
        Verb::Down => lane::down(repo),
        Verb::Status => lane::status(repo),
        Verb::Differential(args) if args.planted => planted::search(repo),
        Verb::Differential(args) => compare::differential(repo, args),
        Verb::Test => compare::a_few_seeds_and_kubectl(repo),
    }
}
