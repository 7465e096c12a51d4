//! Files that grow by lines: a change appends one, so that it needs no new file on the disk.
//!
//! A reader without the lock sees the beginning of such a file. What a crash tore is the end of it,
//! which does not count, and is never continued: a file that does not end with a line break is
//! written anew by the next change, as is one that has grown too long.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::Error;
use usher_hosts::supervisor::write_private;

/// How long a file grows.
pub(super) const BOUND: usize = 64 * 1024;
/// How much of one is read at once; most are shorter.
const PIECE: usize = 16 * 1024;

/// All there is of a file; nothing if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match read_whole(path) {
        Ok(content) => Ok(Some(content)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) if why.kind() == io::ErrorKind::IsADirectory => {
            Err(Error::Corrupt { path: path.to_owned() })
        }
        Err(why) => Err(Error::disk(path)(why)),
    }
}

/// Whether a file that holds this takes another line; if not, it is to be written anew.
pub(super) fn takes(content: &[u8], line: &[u8]) -> bool {
    content.ends_with(b"\n") && content.len() + line.len() <= BOUND
}

/// Adds a line to a file that is there, by one write; never makes one.
pub(super) fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(line)
}

/// Writes a file as a whole, before it has its name.
pub(super) fn stage(aside: &Path, content: &[u8]) -> Result<PathBuf, Error> {
    let staged = aside.join(Uuid::new_v4().to_string());
    write_private(&staged, content).map_err(Error::disk(&staged))?;
    Ok(staged)
}

/// Writes a file anew, whole.
pub(super) fn replace(aside: &Path, path: &Path, content: &[u8]) -> Result<(), Error> {
    let staged = stage(aside, content)?;
    fs::rename(&staged, path).map_err(Error::disk(path))
}

/// Whatever is appended meanwhile is read or not: what comes in one piece is all of it.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut content = vec![0; PIECE];
    let read = loop {
        match file.read(&mut content) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    content.truncate(read);
    if read == PIECE {
        file.read_to_end(&mut content)?;
    }
    Ok(content)
}
