//! The settings of an agent.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

/// The settings file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub api_url: String,
    pub project_id: String,
    pub resource_id: String,
    /// The file with the bootstrap token; deleted after enrolment.
    pub token_file: PathBuf,
    /// A PEM file of certificates to trust instead of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// PEM files of the client certificate and its key, for servers with a client CA.
    #[serde(default)]
    pub cert_file: Option<PathBuf>,
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// Every file in here is work in flight.
    #[serde(default)]
    pub in_flight_dir: Option<PathBuf>,
}

#[derive(Debug, Error)]
pub enum Error {
    #[error("failed to read \"{}\"", path.display())]
    Disk {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to parse \"{}\"", path.display())]
    Syntax {
        path: PathBuf,
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
    fn settings_are_read_and_unknown_fields_are_refused() {
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
