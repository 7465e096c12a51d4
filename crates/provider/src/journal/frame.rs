//! Groups of entries as bytes: a mark, a number, a length, a sum, and the entries.
//!
//! ```text
//!   "UsPr"  group (8)  length (4)  sum of all but the mark (4)  entries, each with its length
//! ```
//!
//! The first group of a file has the number zero and holds the nonce of the state.

use prost::Message as _;
use thiserror::Error;

use super::crc32c::crc32c;
use crate::state::Entry;

const MARK: [u8; 4] = *b"UsPr";
const HEAD: usize = 20;

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The nonce, if the file was begun.
    pub(super) nonce: Option<u64>,
    /// Every entry, oldest first.
    pub(super) entries: Vec<Entry>,
    /// How many groups there are.
    pub(super) groups: u64,
    /// The length of what is whole; the rest was never safe.
    pub(super) whole: usize,
}

/// Why a file cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// Something in the middle does not fit its sum.
    #[error("group {group} at byte {at} was damaged, and others follow it")]
    Middle {
        /// The group.
        group: u64,
        /// Where it begins.
        at: usize,
    },
    /// Something fits its sum and cannot be understood.
    #[error("group {group} at byte {at} cannot be understood")]
    Unknown {
        /// The group.
        group: u64,
        /// Where it begins.
        at: usize,
    },
}

/// The beginning of a file.
pub(super) fn head(nonce: u64) -> Vec<u8> {
    frame(0, &nonce.to_le_bytes())
}

/// A group of entries.
pub(super) fn group<'a>(number: u64, entries: impl Iterator<Item = &'a Entry>) -> Vec<u8> {
    let mut payload = Vec::new();
    for entry in entries {
        // A vector takes whatever it is given.
        let _ = entry.encode_length_delimited(&mut payload);
    }
    frame(number, &payload)
}

/// Reads a file.
pub(super) fn read(bytes: &[u8]) -> Result<Read, Damage> {
    let mut read = Read::default();
    while let Some(payload) = bytes.get(read.whole..).and_then(|rest| whole(rest, read.groups)) {
        let at = read.whole;
        let unknown = Damage::Unknown { group: read.groups, at };
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
        read.whole += HEAD + payload.len();
        read.groups += 1;
    }
    let (at, group) = (read.whole, read.groups);
    if follows(bytes.get(at..).unwrap_or_default(), group) {
        return Err(Damage::Middle { group, at });
    }
    Ok(read)
}

fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut summed = [&number.to_le_bytes()[..], &length.to_le_bytes()].concat();
    summed.extend_from_slice(payload);
    let check = crc32c(&summed);
    let (head, payload) = summed.split_at(12);
    [&MARK[..], head, &check.to_le_bytes(), payload].concat()
}

/// The payload of the group that stands here whole, if it is the one that is expected.
fn whole(bytes: &[u8], group: u64) -> Option<&[u8]> {
    let (number, payload) = any_whole(bytes)?;
    (number == group).then_some(payload)
}

fn any_whole(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (mark, head) = head.split_at_checked(4)?;
    let (summed, check) = head.split_at_checked(12)?;
    let (number, length) = summed.split_at_checked(8)?;
    let number = u64::from_le_bytes(number.try_into().ok()?);
    let length = usize::try_from(u32::from_le_bytes(length.try_into().ok()?)).ok()?;
    let payload = rest.get(..length)?;
    let check = u32::from_le_bytes(check.try_into().ok()?);
    let fits = mark == MARK && crc32c(&[summed, payload].concat()) == check;
    fits.then_some((number, payload))
}

/// Whether a later group stands somewhere in these bytes: then what is before it was safe once.
fn follows(bytes: &[u8], group: u64) -> bool {
    let marks = bytes.windows(MARK.len()).enumerate().filter(|(_, it)| *it == MARK);
    let mut later = marks.filter_map(|(at, _)| any_whole(bytes.get(at..)?));
    later.any(|(number, _)| number > group)
}
