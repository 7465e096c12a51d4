//! The path of a secret, never its value: coordinates in a key-value store.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::coded;

use super::offender::shortened;

/// The longest mount or path.
pub const LENGTH_MAX: usize = 512;

/// The key under which a materialised Secret holds the credential.
pub const SECRET_KEY: &str = "credentials";

/// The place of a secret in a KV store: equal coordinates mean the same secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct KvCoordinates {
    mount: String,
    path: String,
}

coded! {
    /// Coordinates that cannot be read.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadCoordinates {
        /// The mount is not one.
        #[error(
            "mount \"{0}\" is not a path (segments of letters, digits, '.', '_', '-'; at most 512)"
        )]
        Mount(String) = "kv_mount",
        /// The path is not one.
        #[error(
            "path \"{0}\" is not a path (segments of letters, digits, '.', '_', '-'; at most 512)"
        )]
        Path(String) = "kv_path",
    }
}

#[derive(Deserialize)]
struct Unchecked {
    mount: String,
    path: String,
}

impl KvCoordinates {
    /// Coordinates from a mount and a path below it.
    pub fn new(mount: &str, path: &str) -> Result<Self, BadCoordinates> {
        if !is_path(mount) {
            return Err(BadCoordinates::Mount(shortened(mount)));
        }
        if !is_path(path) {
            return Err(BadCoordinates::Path(shortened(path)));
        }
        Ok(Self { mount: mount.to_owned(), path: path.to_owned() })
    }

    pub fn mount(&self) -> &str {
        &self.mount
    }

    /// The path below the mount.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl TryFrom<Unchecked> for KvCoordinates {
    type Error = BadCoordinates;

    fn try_from(it: Unchecked) -> Result<Self, BadCoordinates> {
        Self::new(&it.mount, &it.path)
    }
}

/// Segments of `[A-Za-z0-9._-]` joined by slashes, none of them `.` or `..`.
fn is_path(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let is_segment = |it: &str| !it.is_empty() && it != "." && it != ".." && it.bytes().all(inner);
    text.len() <= LENGTH_MAX && text.split('/').all(is_segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(mount: &str, path: &str) -> KvCoordinates {
        KvCoordinates::new(mount, path).unwrap()
    }

    // Requirement: C-5
    #[test]
    fn only_plain_paths_are_coordinates() {
        for text in ["", "/", "/a", "a/", "a//b", "..", "a/../b", ".", "a b", "é", "a\n"] {
            let mount = KvCoordinates::new(text, "ok").unwrap_err();
            assert_eq!(mount, BadCoordinates::Mount(shortened(text)));
            assert_eq!(mount.code(), "kv_mount");
            let path = KvCoordinates::new("ok", text).unwrap_err();
            assert_eq!(path, BadCoordinates::Path(shortened(text)));
            assert_eq!(path.code(), "kv_path");
        }
        let longest = "p".repeat(LENGTH_MAX);
        assert_eq!(at("m", &longest).path(), longest);
        assert!(KvCoordinates::new("m", &"p".repeat(LENGTH_MAX + 1)).is_err());
        assert_eq!(at("kv-v2", "a/..b/.c").mount(), "kv-v2");
    }

    // Requirement: C-5
    #[test]
    fn stored_coordinates_are_checked_again_when_read() {
        let read: KvCoordinates = serde_json::from_str(r#"{"mount":"m","path":"p"}"#).unwrap();
        assert_eq!(read, at("m", "p"));
        assert!(serde_json::from_str::<KvCoordinates>(r#"{"mount":"m","path":".."}"#).is_err());
    }

    proptest! {
        // Requirement: C-5
        #[test]
        fn garbage_is_refused_or_kept(mount in any::<String>(), path in "[a./]{0,6}") {
            if let Ok(it) = KvCoordinates::new(&mount, &path) {
                prop_assert_eq!((it.mount(), it.path()), (mount.as_str(), path.as_str()));
            }
        }
    }
}
