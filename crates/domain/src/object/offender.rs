//! How a refusal names what it refuses: short, on one line.

/// The longest part of an offending text that a message repeats, in characters.
pub const LENGTH_MAX: usize = 64;

/// The offending text, shortened; control characters are replaced so that no message is split.
pub fn shortened(text: &str) -> String {
    let visible = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(LENGTH_MAX).map(visible).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: C-9
    #[test]
    fn sixty_four_characters_are_kept_and_the_next_is_not() {
        assert_eq!(shortened(&"é".repeat(64)), "é".repeat(64));
        assert_eq!(shortened(&format!("{}b", "a".repeat(64))), "a".repeat(64));
    }

    // Requirement: C-9
    #[test]
    fn a_message_stays_on_one_line() {
        assert_eq!(shortened("a\nb\u{1b}c"), "a\u{fffd}b\u{fffd}c");
    }
}
