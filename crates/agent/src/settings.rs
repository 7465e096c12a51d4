//! What an agent is told before it runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

/// The settings file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the control plane is.
    pub api_url: String,
    /// The project this node joins.
    pub project_id: String,
    /// The resource this node is.
    pub resource_id: String,
    /// Where the bootstrap token lies; the file is deleted when it was redeemed.
    pub token_file: PathBuf,
    /// Trust these certificates instead of the machine's own.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// Every file in here is work in flight.
    #[serde(default)]
    pub in_flight_dir: Option<PathBuf>,
}

/// Why settings are none.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read \"{}\"", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("cannot understand \"{}\"", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: serde_json::Error,
    },
}

impl Settings {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes =
            fs::read(path).map_err(|source| Error::Disk { path: path.to_owned(), source })?;
        serde_json::from_slice(&bytes)
            .map_err(|source| Error::Syntax { path: path.to_owned(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: AG-8
    #[test]
    fn settings_are_read_and_what_nobody_knows_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.json");
        let good = r#"{"api_url":"http://127.0.0.1:1","project_id":"p","resource_id":"r",
            "token_file":"t"}"#;
        fs::write(&path, good).unwrap();
        assert_eq!(Settings::read(&path).unwrap().token_file, PathBuf::from("t"));
        for bad in ["", "{}", "[]", &good.replace("\"token_file\"", "\"tokenfile\"")] {
            fs::write(&path, bad).unwrap();
            assert!(matches!(Settings::read(&path), Err(Error::Syntax { .. })), "{bad}");
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(Settings::read(&path), Err(Error::Disk { .. })));
    }
}
