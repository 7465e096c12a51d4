//! `up`, `down` and `status`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::peers::{MODULES, Place};
use super::processes::{self, SERVERS};
use super::start::Start;
use super::{OTHER_CLUSTER, build};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::repo::Repo;

/// The data, logs and keys, in the target directory.
const FOLDER: &str = "target/real";

/// A cluster that answers.
pub(super) struct Cluster {
    /// Its kubeconfig.
    pub(super) kubeconfig: PathBuf,
    /// Whether this call has started it.
    pub(super) is_new: bool,
}

/// Starts what does not run yet and prints the kubeconfig.
pub(super) fn up(repo: &Repo) -> Result<Cluster, Failure> {
    if let Some(kubeconfig) = other() {
        output::say(format_args!(
            "{OTHER_CLUSTER} names another cluster, nothing is started: {}",
            kubeconfig.display()
        ));
        return Ok(Cluster { kubeconfig, is_new: false });
    }
    let place = Place::find()?;
    let folder = repo.root().join(FOLDER);
    let start = Start { folder: &folder, place: &place };
    build::missing(&place)?;
    let is_new = processes::running(&folder).len() != SERVERS.len() || !start.is_ready();
    if is_new {
        down(repo)?;
        output::say("starting etcd and Kubernetes");
        start.run().inspect_err(|_| {
            let _reported = processes::stop(&folder);
        })?;
    }
    versions(&place);
    let kubeconfig = start.kubeconfig();
    output::say(format_args!("kubeconfig {}", kubeconfig.display()));
    Ok(Cluster { kubeconfig, is_new })
}

/// Stops every process of the lane, also those of a run that crashed, and removes the data.
pub(super) fn down(repo: &Repo) -> Outcome {
    let folder = repo.root().join(FOLDER);
    let stopped = processes::running(&folder).len();
    processes::stop(&folder)?;
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|cause| {
            Failure::message(format!("cannot remove {}: {cause}", folder.display()))
        })?;
    }
    output::say(format_args!("stopped {stopped} processes"));
    Ok(())
}

/// Prints the processes and whether the API server is ready.
pub(super) fn status(repo: &Repo) -> Outcome {
    let place = Place::find()?;
    let folder = repo.root().join(FOLDER);
    let start = Start { folder: &folder, place: &place };
    let running = processes::running(&folder);
    for name in SERVERS {
        let own = running.iter().find(|process| process.name == name);
        let state = own.map_or("down".to_owned(), |process| process.pid.to_string());
        output::say(format_args!("{name:<24} {state}"));
    }
    let ready = !running.is_empty() && start.is_ready();
    output::say(if ready { "ready" } else { "not ready" });
    if ready {
        output::say(format_args!("kubeconfig {}", start.kubeconfig().display()));
    }
    Ok(())
}

/// The kubeconfig of the cluster that the environment names.
fn other() -> Option<PathBuf> {
    std::env::var_os(OTHER_CLUSTER).map(PathBuf::from)
}

/// Prints what each program says of its version.
fn versions(place: &Place) {
    for program in MODULES.iter().flat_map(|module| module.programs) {
        let words: &[&str] =
            if program.name == "kubectl" { &["version", "--client"] } else { &["--version"] };
        let said = Command::new(place.program(program.name)).args(words).output();
        let said = said.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        let first = said.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
        output::say(format_args!("{:<24} {first}", program.name));
    }
}
