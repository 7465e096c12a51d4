//! The files of a data directory, and its default path.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file of the embedded database.
pub const DATABASE: &str = "usher.db";
/// The file with the URL of the running server, which holds a lock on it: the lock ends with the
/// process, whatever ends that.
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

/// Why a data directory names no running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// There is no endpoint file, or it names no server.
    Unannounced,
    /// The endpoint file cannot be read or locked, so a server may run.
    Unreadable { why: io::ErrorKind },
    /// The process that wrote the file has ended, so any other may listen at its URL.
    Ended { pid: u32 },
}

/// The endpoint of the server that runs on a data directory.
pub fn endpoint(folder: &Path) -> Result<Endpoint, Absent> {
    let file = match File::open(folder.join(ENDPOINT)) {
        Ok(file) => file,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Err(Absent::Unannounced),
        Err(why) => return Err(Absent::Unreadable { why: why.kind() }),
    };
    let endpoint: Endpoint = serde_json::from_reader(&file).map_err(|_| Absent::Unannounced)?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Ok(endpoint),
        Ok(()) => Err(Absent::Ended { pid: endpoint.pid }),
        Err(TryLockError::Error(why)) => Err(Absent::Unreadable { why: why.kind() }),
    }
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

    /// Red by: the URL of a server that was killed.
    // Requirement: HC-29
    #[test]
    fn an_endpoint_is_that_of_a_process_that_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(ENDPOINT);
        assert_eq!(endpoint(folder.path()), Err(Absent::Unannounced));
        let it = Endpoint { url: "http://127.0.0.1:7420".to_owned(), pid: 7 };
        std::fs::write(&path, serde_json::to_vec(&it).unwrap()).unwrap();
        let holder = File::open(&path).unwrap();
        holder.lock().unwrap();
        assert_eq!(endpoint(folder.path()), Ok(it));
        drop(holder);
        assert_eq!(endpoint(folder.path()), Err(Absent::Ended { pid: 7 }));
        std::fs::write(&path, "{").unwrap();
        assert_eq!(endpoint(folder.path()), Err(Absent::Unannounced));
    }
}
