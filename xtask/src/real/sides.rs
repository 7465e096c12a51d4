//! The servers beside which the embedded API server is measured.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::build;
use super::peers::{API_SERVER, ETCD, Place};
use super::start::{NO_SYNC, Start};
use crate::failure::Failure;
use crate::repo::Repo;

/// Certificates, data and logs, in the target directory.
const FOLDER: &str = "target/real-bench";

/// A file that says how the servers are started: etcd that syncs, and etcd that does not. The
/// memory with many objects is measured of the faster one.
pub(crate) fn write(repo: &Repo) -> Result<PathBuf, Failure> {
    let place = Place::find()?;
    build::missing(&place)?;
    let folder = repo.root().join(FOLDER);
    remove(repo)?;
    let durable = side(&folder.join("durable"), &place, true)?;
    let fast = side(&folder.join("fast"), &place, false)?;
    let path = folder.join("sides.json");
    fs::write(&path, json!([durable, fast]).to_string())
        .map_err(|cause| Failure::message(format!("cannot write {}: {cause}", path.display())))?;
    Ok(path)
}

/// Removes what the servers left.
pub(crate) fn remove(repo: &Repo) -> Result<(), Failure> {
    let folder = repo.root().join(FOLDER);
    if !folder.exists() {
        return Ok(());
    }
    fs::remove_dir_all(&folder)
        .map_err(|cause| Failure::message(format!("cannot remove {}: {cause}", folder.display())))
}

fn side(folder: &Path, place: &Place, is_durable: bool) -> Result<Value, Failure> {
    let start = Start { folder, place };
    let [mut etcd, api] = start.words()?;
    etcd.retain(|word| !is_durable || word != NO_SYNC);
    let program =
        |name: &str, words: &[String]| json!({"path": place.program(name), "words": words});
    Ok(json!({
        "name": if is_durable { "etcd, fsync" } else { "etcd, no fsync" },
        "kubeconfig": start.kubeconfig(),
        "programs": [program(ETCD, &etcd), program(API_SERVER, &api)],
        "is_durable": is_durable,
        "is_filled": !is_durable,
    }))
}
