//! Environment variables, read in one place.

/// The value of a variable, unless it is empty.
#[expect(clippy::disallowed_methods, reason = "this is where a client's settings enter")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
