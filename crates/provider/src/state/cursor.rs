//! List cursors: text with a checksum, so that an altered cursor is rejected.
//!
//! ```text
//!   b<head>.<check>                     changes after the head
//!   p<head>.<start>.<after>.<check>     the next page of the machines at the head
//! ```
//!
//! Pages begin after `start`, wrap around at the head and end at `start`. A machine that changes
//! meanwhile gets a revision after the head and is listed with the changes after the last page.

/// Where the next list begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// At everything newer.
    Since(u64),
    /// At the next page.
    Page {
        /// Newer revisions are listed after the last page.
        head: u64,
        /// Where the first page began.
        start: u64,
        /// The last revision on the previous page.
        after: u64,
        /// Whether the pages have wrapped around.
        wrapped: bool,
    },
}

impl Cursor {
    /// Its text for the state with this nonce.
    pub fn to_text(self, nonce: u64) -> String {
        let body = match self {
            Self::Since(head) => format!("b{head:x}"),
            Self::Page { head, start, after, wrapped } => {
                let word = if wrapped { 'q' } else { 'p' };
                format!("{word}{head:x}.{start:x}.{after:x}")
            }
        };
        format!("{body}.{:08x}", check(nonce, &body))
    }

    /// Parses a cursor of the state with this nonce; `None` for anything else.
    pub fn from_text(nonce: u64, text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|it| it.len() <= 80)?;
        let (body, sum) = text.rsplit_once('.')?;
        if sum != format!("{:08x}", check(nonce, body)) {
            return None;
        }
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (word, rest) = body.split_at_checked(1)?;
        if word == "b" {
            return number(rest).map(Self::Since);
        }
        let mut parts = rest.split('.').map(number);
        let (head, start, after) = (parts.next()??, parts.next()??, parts.next()??);
        let known = parts.next().is_none() && matches!(word, "p" | "q");
        known.then_some(Self::Page { head, start, after, wrapped: word == "q" })
    }
}

/// FNV-1a, folded.
fn check(nonce: u64, body: &str) -> u32 {
    let bytes = nonce.to_le_bytes().into_iter().chain(body.bytes());
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    u32::try_from((sum >> 32) ^ (sum & 0xffff_ffff)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Cursor = Cursor::Page { head: 900, start: 7, after: 80, wrapped: true };

    #[test]
    fn a_cursor_round_trips() {
        for cursor in [Cursor::Since(0), Cursor::Since(u64::MAX), PAGE] {
            let text = cursor.to_text(42);
            assert_eq!(Cursor::from_text(42, text.as_bytes()), Some(cursor), "{text}");
            assert_eq!(Cursor::from_text(43, text.as_bytes()), None, "of another state");
        }
    }

    // Requirement: PM-8
    #[test]
    fn an_altered_cursor_is_rejected() {
        for cursor in [Cursor::Since(5), PAGE] {
            let text = cursor.to_text(42).into_bytes();
            for at in 0..text.len() {
                for bit in 0..8 {
                    let mut altered = text.clone();
                    altered[at] ^= 1 << bit;
                    assert_eq!(Cursor::from_text(42, &altered), None);
                }
                assert_eq!(Cursor::from_text(42, &text[..at]), None);
            }
            for (before, after) in [("", "!"), ("~", ""), ("", "\0"), (" ", ""), ("", "\u{fe}")] {
                let altered = [before.as_bytes(), &text, after.as_bytes()].concat();
                assert_eq!(Cursor::from_text(42, &altered), None);
            }
        }
    }
}
