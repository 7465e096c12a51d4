//! The file format: a group of entries is one frame with a checksum.
//!
//! ```text
//!   "UsPr"  group (8)  length (4)  CRC-32C without magic (4)  length-delimited entries
//! ```
//!
//! The first group of a file has the number zero and holds the nonce of the state.

use prost::Message as _;
use thiserror::Error;

use super::crc32c::crc32c;
use crate::state::Entry;

const MAGIC: [u8; 4] = *b"UsPr";
const HEAD: usize = 20;

/// The content of a file.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The nonce; `None` in an empty file.
    pub(super) nonce: Option<u64>,
    /// Every entry, oldest first.
    pub(super) entries: Vec<Entry>,
    /// The number of groups.
    pub(super) groups: u64,
    /// The length of the complete groups; a torn tail follows.
    pub(super) complete: usize,
}

/// How a file is corrupt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Corruption {
    /// The checksum of a group in the middle does not match.
    #[error("group {group} at byte {at} is corrupt, and later groups follow")]
    Middle {
        /// The group.
        group: u64,
        /// Where it begins.
        at: usize,
    },
    /// A group with a valid checksum cannot be decoded.
    #[error("group {group} at byte {at} cannot be decoded")]
    Unknown {
        /// The group.
        group: u64,
        /// Where it begins.
        at: usize,
    },
}

/// The first group of a file.
pub(super) fn head(nonce: u64) -> Vec<u8> {
    frame(0, &nonce.to_le_bytes())
}

/// A group of entries.
pub(super) fn group<'a>(number: u64, entries: impl Iterator<Item = &'a Entry>) -> Vec<u8> {
    let mut payload = Vec::new();
    for entry in entries {
        // Encoding to a vector cannot fail.
        let _ = entry.encode_length_delimited(&mut payload);
    }
    frame(number, &payload)
}

/// Decodes a file.
pub(super) fn read(bytes: &[u8]) -> Result<Read, Corruption> {
    let mut read = Read::default();
    while let Some(payload) =
        bytes.get(read.complete..).and_then(|rest| complete(rest, read.groups))
    {
        let at = read.complete;
        let unknown = Corruption::Unknown { group: read.groups, at };
        if read.groups == 0 {
            let nonce = payload.try_into().map(u64::from_le_bytes).map_err(|_| unknown)?;
            read.nonce = Some(nonce);
        } else {
            let mut rest = payload;
            while !rest.is_empty() {
                let entry = Entry::decode_length_delimited(&mut rest);
                read.entries.push(entry.map_err(|_| unknown.clone())?);
            }
        }
        read.complete += HEAD + payload.len();
        read.groups += 1;
    }
    let (at, group) = (read.complete, read.groups);
    if follows(bytes.get(at..).unwrap_or_default(), group) {
        return Err(Corruption::Middle { group, at });
    }
    Ok(read)
}

fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut summed = [&number.to_le_bytes()[..], &length.to_le_bytes()].concat();
    summed.extend_from_slice(payload);
    let check = crc32c(&summed);
    let (head, payload) = summed.split_at(12);
    [&MAGIC[..], head, &check.to_le_bytes(), payload].concat()
}

/// The payload of the group at the start of these bytes, if it is complete and has this number.
fn complete(bytes: &[u8], group: u64) -> Option<&[u8]> {
    let (number, payload) = any_complete(bytes)?;
    (number == group).then_some(payload)
}

fn any_complete(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (magic, head) = head.split_at_checked(4)?;
    let (summed, check) = head.split_at_checked(12)?;
    let (number, length) = summed.split_at_checked(8)?;
    let number = u64::from_le_bytes(number.try_into().ok()?);
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    let payload = rest.get(..length)?;
    let check = u32::from_le_bytes(check.try_into().ok()?);
    let fits = magic == MAGIC && crc32c(&[summed, payload].concat()) == check;
    fits.then_some((number, payload))
}

/// Whether a later group follows in these bytes: then the bytes before it were durable once.
fn follows(bytes: &[u8], group: u64) -> bool {
    let starts = bytes.windows(MAGIC.len()).enumerate().filter(|(_, it)| *it == MAGIC);
    let mut later = starts.filter_map(|(at, _)| any_complete(bytes.get(at..)?));
    later.any(|(number, _)| number > group)
}
