//! Times, names and ids that nobody gave.

use ring::rand::{SecureRandom, SystemRandom};

use crate::meta::name::{SUFFIX_ALPHABET, SUFFIX_LENGTH};

/// Now, in whole seconds.
pub(crate) fn now() -> String {
    seconds(jiff::Timestamp::now())
}

fn seconds(time: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// A new uid.
pub(crate) fn uid() -> String {
    uuid::Builder::from_random_bytes(random()).into_uuid().to_string()
}

/// A suffix for a name.
pub(crate) fn suffix() -> String {
    let bytes: [u8; SUFFIX_LENGTH] = random();
    let letter = |byte: &u8| {
        let index = usize::from(*byte) % SUFFIX_ALPHABET.len();
        char::from(SUFFIX_ALPHABET.get(index).copied().unwrap_or(b'x'))
    };
    bytes.iter().map(letter).collect()
}

/// A new secret that opens the server.
pub(crate) fn token() -> String {
    let bytes: [u8; 32] = random();
    hex(&bytes)
}

/// Bytes as text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if SystemRandom::new().fill(&mut bytes).is_err() {
        tracing::error!("the system gives no randomness");
    }
    bytes
}
