//! Generated times, names and ids.

use ring::error::Unspecified;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::meta::name::{SUFFIX_ALPHABET, SUFFIX_LENGTH};

/// The system has no random bytes: without them ids repeat and secrets can be guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no random bytes")]
pub(crate) struct NoRandomness;

/// Now, in whole seconds.
pub(crate) fn now() -> String {
    seconds(jiff::Timestamp::now())
}

fn seconds(time: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// A new uid.
pub(crate) fn uid() -> Result<String, NoRandomness> {
    Ok(uuid::Builder::from_random_bytes(random()?).into_uuid().to_string())
}

/// A suffix for a name.
pub(crate) fn suffix() -> Result<String, NoRandomness> {
    let bytes: [u8; SUFFIX_LENGTH] = random()?;
    let letter = |byte: &u8| {
        let index = usize::from(*byte) % SUFFIX_ALPHABET.len();
        char::from(SUFFIX_ALPHABET.get(index).copied().unwrap_or(b'x'))
    };
    Ok(bytes.iter().map(letter).collect())
}

/// A new bearer token.
pub(crate) fn token() -> Result<String, NoRandomness> {
    let bytes: [u8; 32] = random()?;
    Ok(hex(&bytes))
}

/// A new key.
pub(crate) fn secret() -> Result<[u8; 32], NoRandomness> {
    random()
}

/// Now, in seconds since 1970.
pub(crate) fn unix_seconds() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Seconds since 1970 as a time.
pub(crate) fn written(unix_seconds: i64) -> String {
    jiff::Timestamp::from_second(unix_seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn random<const N: usize>() -> Result<[u8; N], NoRandomness> {
    drawn(|bytes| SystemRandom::new().fill(bytes))
}

fn drawn<const N: usize>(
    fill: impl FnOnce(&mut [u8]) -> Result<(), Unspecified>,
) -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    fill(&mut bytes).map_err(|Unspecified| NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: AK-20
    #[test]
    fn missing_randomness_is_an_error_not_zeros() {
        assert_eq!(drawn::<4>(|_| Err(Unspecified)), Err(NoRandomness));
        let sevens = drawn(|bytes| {
            bytes.fill(7);
            Ok(())
        });
        assert_eq!(sevens, Ok([7, 7]));
    }
}
