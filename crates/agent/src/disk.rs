//! Files that are whole or not there, and that only we may read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Writes a file anew, whole and durable.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let staged = path.with_extension("staged");
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&staged)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&staged, path)?;
    // The old content must not come back after a power failure: it may be refused by then.
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
