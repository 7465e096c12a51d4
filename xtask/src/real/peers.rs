//! The programs of the lane: their versions, the Go packages they are built from, where they are.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Names a folder of ready programs, which are then neither built nor checked.
const READY: &str = "USHER_PEERS_DIR";

/// The version of the Go modules that the one of Kubernetes replaces by folders.
const STAGING: &str = "v0.36.4";

/// A Go module and the programs that are built from it.
#[derive(Debug)]
pub(super) struct Module {
    /// Its folder in the cache.
    pub(super) name: &'static str,
    /// The Go module.
    pub(super) path: &'static str,
    pub(super) version: &'static str,
    /// The version of the modules that its own `go.mod` replaces by folders.
    pub(super) staging: Option<&'static str>,
    /// Variables set by the linker.
    pub(super) linked: &'static [&'static str],
    pub(super) programs: &'static [Program],
}

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
}

pub(super) const ETCD: &str = "etcd";
pub(super) const API_SERVER: &str = "kube-apiserver";
pub(super) const CONTROLLERS: &str = "kube-controller-manager";
pub(super) const KUBECTL: &str = "kubectl";

/// Every module, in the order in which they are built.
pub(super) const MODULES: [Module; 2] = [
    Module {
        name: "etcd",
        path: "go.etcd.io/etcd/server/v3",
        version: "v3.6.16",
        staging: None,
        linked: &[],
        programs: &[program(ETCD, "go.etcd.io/etcd/server/v3")],
    },
    Module {
        name: "kubernetes",
        path: "k8s.io/kubernetes",
        version: "v1.36.4",
        staging: Some(STAGING),
        linked: &[
            "k8s.io/component-base/version.gitVersion=v1.36.4",
            "k8s.io/component-base/version.gitMajor=1",
            "k8s.io/component-base/version.gitMinor=36",
        ],
        programs: &[
            program(API_SERVER, "k8s.io/kubernetes/cmd/kube-apiserver"),
            program(CONTROLLERS, "k8s.io/kubernetes/cmd/kube-controller-manager"),
            program(KUBECTL, "k8s.io/kubernetes/cmd/kubectl"),
        ],
    },
];

const fn program(name: &'static str, package: &'static str) -> Program {
    Program { name, package }
}

/// Where the programs are.
pub(super) enum Place {
    /// Built here, outside the working copy.
    Cache(PathBuf),
    /// Given.
    Ready(PathBuf),
}

impl Place {
    /// The folder that the environment names, or the user's cache.
    pub(super) fn find() -> Result<Self, Failure> {
        if let Some(ready) = std::env::var_os(READY) {
            return Ok(Self::Ready(PathBuf::from(ready)));
        }
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
        let cache = cache.or_else(home).ok_or_else(|| {
            Failure::message(format!("no place for the peers: set HOME, XDG_CACHE_HOME or {READY}"))
        })?;
        Ok(Self::Cache(cache.join("usher/peers")))
    }

    /// The folder of the programs.
    pub(super) fn programs(&self) -> PathBuf {
        match self {
            Self::Cache(folder) => folder.join("bin"),
            Self::Ready(folder) => folder.clone(),
        }
    }

    /// The path of a program.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.programs().join(name)
    }
}

/// Refuses a folder of ready programs that lacks one.
pub(super) fn complete(folder: &Path) -> Result<(), Failure> {
    let programs = MODULES.iter().flat_map(|module| module.programs);
    let missing: Vec<&str> =
        programs.map(|program| program.name).filter(|name| !folder.join(name).is_file()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let folder = folder.display();
    Err(Failure::message(format!("{READY} names {folder}, which lacks {}", missing.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_the_programs_is_refused_by_their_names() {
        let Err(Failure::Message(sentence)) = complete(Path::new("/nowhere")) else {
            panic!("accepted");
        };
        let expected = "USHER_PEERS_DIR names /nowhere, which lacks etcd, kube-apiserver, \
            kube-controller-manager, kubectl";
        assert_eq!(sentence, expected);
    }
}
