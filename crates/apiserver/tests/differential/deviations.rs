//! Where the embedded server differs on purpose, and why.

use crate::compare::Difference;
use crate::request::Request;

/// A difference that is wanted.
pub(crate) struct Deviation {
    /// The kind of the difference begins with this text.
    pub(crate) kind: &'static str,
    /// The first differing field has this text in it.
    pub(crate) text: &'static str,
    pub(crate) reason: &'static str,
    /// Requests that show it.
    pub(crate) requests: fn() -> Vec<Request>,
}

/// Every deviation: none at present. A run plays the requests of each and fails if one no longer
/// differs.
pub(crate) const DEVIATIONS: [Deviation; 0] = [];

/// The deviation that explains a difference.
pub(crate) fn explains(found: &Difference) -> Option<&'static Deviation> {
    let first = found.lines.first().map(String::as_str).unwrap_or_default();
    DEVIATIONS.iter().find(|it| found.kind.starts_with(it.kind) && first.contains(it.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    #[test]
    fn there_are_few_and_each_has_a_reason() {
        assert!(DEVIATIONS.len() + commands::DEVIATIONS.len() <= 15);
        assert!(DEVIATIONS.iter().all(|it| !it.kind.is_empty() && it.reason.len() > 20));
        assert!(commands::DEVIATIONS.iter().all(|(_, reason)| reason.len() > 20));
    }
}
