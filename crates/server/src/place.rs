//! The data directory and its secrets.
//!
//! ```text
//!   <data dir>/usher.db        the database, where it is embedded
//!              endpoint.json   where a running server listens, and its process
//!              admin.token     the first token, 0600
//!              server.key      the keys that secrets are derived with, 0600
//!              world/          the local world
//!              fleet/          the hosts of this machine and the state of their provider
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use usher_domain::object::id::OperatorTokenId;
use usher_domain::object::manifest::SecretText;
use usher_domain::operators::{self, Grant, OperatorToken, TokenHash};
use usher_store::Store;
use uuid::Uuid;

use super::key_file::random;
use usher_hosts::supervisor::{ignore_missing, private_folder, write_private};
use usher_wire::data_dir::{ADMIN_TOKEN, DATABASE, ENDPOINT, Endpoint};

const WORLD: &str = "world";

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    #[error("failed to access \"{}\"", path.display())]
    Disk {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no operator token in \"{}\"; remove the file to create one", path.display())]
    BadToken { path: PathBuf },
    #[error(transparent)]
    Unminted(#[from] Unminted),
}

/// There is no randomness.
#[derive(Clone, Copy, Debug, Error)]
#[error("failed to read random bytes for a secret")]
pub struct Unminted;

#[derive(Clone, Debug)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// Opens the directory; creates it if it does not exist.
    pub fn open(path: &Path) -> Result<Self, Error> {
        private_folder().recursive(true).create(path).map_err(disk(path))?;
        Ok(Self(fs::canonicalize(path).map_err(disk(path))?))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The embedded database.
    pub fn database(&self) -> PathBuf {
        self.0.join(DATABASE)
    }

    /// The local world.
    pub fn world(&self) -> PathBuf {
        self.0.join(WORLD)
    }

    /// The first operator token; created if it does not exist. The file is written before the row:
    /// a server that is killed in between stores the same token at its next start.
    pub fn token(&self) -> Result<SecretText, Error> {
        let path = self.0.join(ADMIN_TOKEN);
        let text = if let Some(text) = read(&path)? {
            text
        } else {
            let text = operators::text(&random()?);
            self.keep(&path, &format!("{}\n", text.expose()))?;
            read(&path)?.unwrap_or_default()
        };
        let text = text.trim();
        if !text.starts_with(operators::TEXT_PREFIX) {
            return Err(Error::BadToken { path });
        }
        Ok(SecretText::new(text))
    }

    /// Writes the endpoint of this process, which is taken for gone when the file is closed.
    pub fn announce(&self, url: &str) -> Result<File, Error> {
        let endpoint = Endpoint { url: url.to_owned(), pid: std::process::id() };
        let text = serde_json::to_string(&endpoint).unwrap_or_default();
        let path = self.0.join(ENDPOINT);
        let staged = self.staged();
        let locked = || -> io::Result<File> {
            write_private(&staged, text.as_bytes())?;
            // NFS locks a file exclusively only if it is open for writing.
            let file = OpenOptions::new().write(true).open(&staged)?;
            file.try_lock()?;
            fs::rename(&staged, &path)?;
            Ok(file)
        };
        locked().map_err(|why| {
            // The first failure is the one to report.
            let _ = ignore_missing(fs::remove_file(&staged));
            disk(&path)(why)
        })
    }

    /// Removes the endpoint, unless another process has written its own.
    pub fn withdraw(&self) {
        let path = self.0.join(ENDPOINT);
        let own = fs::read(&path).ok().and_then(|it| serde_json::from_slice::<Endpoint>(&it).ok());
        if own.is_some_and(|it| it.pid == std::process::id()) {
            // The client takes a stale one for what it is.
            let _ = ignore_missing(fs::remove_file(&path));
        }
    }

    /// Writes a secret atomically, unless another process has written it.
    fn keep(&self, path: &Path, text: &str) -> Result<(), Error> {
        let staged = self.staged();
        write_private(&staged, text.as_bytes()).map_err(disk(&staged))?;
        let linked = match fs::hard_link(&staged, path) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done.map_err(disk(path)),
        };
        ignore_missing(fs::remove_file(&staged)).map_err(disk(&staged))?;
        linked
    }

    fn staged(&self) -> PathBuf {
        self.0.join(format!(".staged-{}", Uuid::new_v4()))
    }
}

/// Stores the first operator token, unless it is stored.
pub async fn admit(store: &Store, text: &SecretText) -> Result<(), usher_store::Error> {
    let hash = TokenHash::of(text);
    if store.operator_token(hash).await?.is_some() {
        return Ok(());
    }
    let id = Uuid::now_v7();
    for name in ["admin".to_owned(), format!("admin-{}", id.simple())] {
        let Ok(name) = name.parse() else { continue };
        let token = OperatorToken {
            id: OperatorTokenId::from_uuid(id),
            name,
            grant: Grant::Admin,
            hash,
            expires_at: None,
            revoked_at: None,
        };
        match store.create_operator_token(token).await {
            // An earlier token has the name, or another server stored this token.
            Err(usher_store::Error::Taken { .. }) => {
                if store.operator_token(hash).await?.is_some() {
                    return Ok(());
                }
            }
            done => return done,
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => Err(disk(path)(why)),
    }
}

fn disk(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Disk { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use usher_wire::data_dir::endpoint;

    use super::*;

    fn dir() -> (tempfile::TempDir, DataDir) {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(&dir.path().join("data")).unwrap();
        (dir, data)
    }

    #[test]
    fn the_token_is_created_once_and_readable_only_by_the_owner() {
        let (_dir, data) = dir();
        assert_eq!(data.token().unwrap().expose(), data.token().unwrap().expose());
        let mode = fs::metadata(data.path().join(ADMIN_TOKEN)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1, "no staged file is left");
    }

    #[test]
    fn an_invalid_token_is_refused_and_not_replaced() {
        let (_dir, data) = dir();
        fs::write(data.path().join(ADMIN_TOKEN), "hello").unwrap();
        let why = data.token().unwrap_err();
        assert!(matches!(why, Error::BadToken { .. }) && !why.to_string().contains("hello"));
    }

    #[test]
    fn only_the_announcing_process_withdraws_its_endpoint() {
        let (_dir, data) = dir();
        let _first = data.announce("http://127.0.0.1:1").unwrap();
        let path = data.path().join(ENDPOINT);
        assert!(endpoint(data.path()).is_ok(), "it is held");
        let other = Endpoint { url: "u".to_owned(), pid: 1 };
        fs::write(&path, serde_json::to_string(&other).unwrap()).unwrap();
        data.withdraw();
        assert!(path.exists(), "it belongs to another process");
        let _second = data.announce("http://127.0.0.1:1").unwrap();
        data.withdraw();
        assert!(!path.exists());
    }
}
