//! The files of a data directory, and its default path.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file of the embedded database.
pub const DATABASE: &str = "usher.db";
/// The file with the URL of the running server.
pub const ENDPOINT: &str = "endpoint.json";
/// The file with the admin token.
pub const ADMIN_TOKEN: &str = "admin.token";
/// The environment variable of the data directory.
pub const VARIABLE: &str = "USHER_DATA_DIR";

/// Where a running server listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub url: String,
    pub pid: u32,
}

/// The endpoint of the server that runs on a data directory.
pub fn endpoint(folder: &Path) -> io::Result<Endpoint> {
    let text = std::fs::read(folder.join(ENDPOINT))?;
    serde_json::from_slice(&text).map_err(io::Error::from)
}

/// The default data directory of this platform, if the environment names a home.
pub fn standard(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let given = variable("XDG_DATA_HOME").map(PathBuf::from);
    let home = || variable("HOME").map(|it| PathBuf::from(it).join(".local/share"));
    let below = given.or_else(home);
    below.map(|it| it.join("usher"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: HC-18
    #[test]
    fn the_default_data_directory_follows_xdg() {
        let with = |pairs: &'static [(&str, &str)]| {
            standard(move |name| {
                pairs.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let home = Some(PathBuf::from("/h/ann/.local/share/usher"));
        assert_eq!(with(&[("HOME", "/h/ann")]), home);
        let data = Some(PathBuf::from("/data/usher"));
        assert_eq!(with(&[("HOME", "/h/ann"), ("XDG_DATA_HOME", "/data")]), data);
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn an_endpoint_file_is_parsed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(endpoint(folder.path()).is_err());
        let it = Endpoint { url: "http://127.0.0.1:7420".to_owned(), pid: 7 };
        let text = serde_json::to_vec(&it).unwrap();
        std::fs::write(folder.path().join(ENDPOINT), text).unwrap();
        assert_eq!(endpoint(folder.path()).unwrap(), it);
        std::fs::write(folder.path().join(ENDPOINT), "{").unwrap();
        assert!(endpoint(folder.path()).is_err());
    }
}
