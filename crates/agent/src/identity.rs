//! The identity of a node: key and nonce before it enrols, id and secret afterwards.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};
use usher_wire::http::Secret;

use crate::disk;

const FILE: &str = "identity.json";

/// What the control plane answered to the registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub id: String,
    pub secret: Secret,
    pub heartbeat_ms: u64,
}

pub struct Identity {
    path: PathBuf,
    stored: Stored,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    nonce: String,
    public_key: String,
    private_key: Secret,
    node: Option<Node>,
}

impl Identity {
    /// The identity in this directory; a new one is written before it is used.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        let stored = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                let stored = Stored::generate()?;
                disk::write(&path, &serde_json::to_vec(&stored)?)?;
                stored
            }
            Err(why) => return Err(why),
        };
        Ok(Self { path, stored })
    }

    /// Sent with every registration, so that a repetition is recognised.
    pub fn nonce(&self) -> &str {
        &self.stored.nonce
    }

    /// In standard base64.
    pub fn public_key(&self) -> &str {
        &self.stored.public_key
    }

    pub const fn node(&self) -> Option<&Node> {
        self.stored.node.as_ref()
    }

    pub fn store_node(&mut self, node: Node) -> io::Result<()> {
        let stored = Stored { node: Some(node), ..self.stored.clone() };
        disk::write(&self.path, &serde_json::to_vec(&stored)?)?;
        self.stored = stored;
        Ok(())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("node", &self.stored.node).finish_non_exhaustive()
    }
}

impl Stored {
    fn generate() -> io::Result<Self> {
        let random = SystemRandom::new();
        let mut nonce = [0; 24];
        let failed = || io::Error::other("failed to generate a key");
        random.fill(&mut nonce).map_err(|_| failed())?;
        let document = Ed25519KeyPair::generate_pkcs8(&random).map_err(|_| failed())?;
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|_| failed())?;
        Ok(Self {
            nonce: URL_SAFE_NO_PAD.encode(nonce),
            public_key: STANDARD.encode(pair.public_key()),
            private_key: Secret::new(STANDARD.encode(document)),
            node: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    // Requirement: AG-2
    #[test]
    fn an_identity_is_minted_once_and_kept_private() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::open(dir.path()).unwrap();
        let again = Identity::open(dir.path()).unwrap();
        assert_eq!(first.nonce(), again.nonce());
        assert_eq!(first.public_key(), again.public_key());
        assert_eq!(STANDARD.decode(first.public_key()).unwrap().len(), 32);
        let mode = fs::metadata(dir.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = tempfile::tempdir().unwrap();
        assert_ne!(Identity::open(other.path()).unwrap().nonce(), first.nonce());
    }

    // Requirement: AG-7
    #[test]
    fn the_node_is_stored_and_its_secret_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let mut identity = Identity::open(dir.path()).unwrap();
        assert_eq!(identity.node(), None);
        let node = Node { id: "n".into(), secret: Secret::new("canary"), heartbeat_ms: 5 };
        identity.store_node(node.clone()).unwrap();
        let again = Identity::open(dir.path()).unwrap();
        assert_eq!(again.node(), Some(&node));
        assert!(!format!("{again:?}").contains("canary"));
        assert!(!format!("{again:?}").contains(&again.stored.private_key.expose().to_owned()));
    }

    #[test]
    fn an_identity_that_cannot_be_read_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(Identity::open(dir.path()).is_err());
        assert_eq!(fs::read(dir.path().join(FILE)).unwrap(), b"{");
    }
}
