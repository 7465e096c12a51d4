//! Where the embedded server differs on purpose, and why.

use crate::compare::Difference;

/// A difference that is wanted.
pub(crate) struct Deviation {
    /// The kind of the difference begins with this text.
    pub(crate) kind: &'static str,
    /// The first differing field has this text in it.
    pub(crate) text: &'static str,
    pub(crate) reason: &'static str,
}

const DEVIATIONS: [Deviation; 0] = [];

/// The deviation that explains a difference.
pub(crate) fn explains(found: &Difference) -> Option<&'static Deviation> {
    let first = found.lines.first().map(String::as_str).unwrap_or_default();
    DEVIATIONS.iter().find(|it| found.kind.starts_with(it.kind) && first.contains(it.text))
}
