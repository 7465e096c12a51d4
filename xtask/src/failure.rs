//! How a chore ends when it does not end well.

/// Why a chore failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nobody has told the person yet: this is the sentence.
    Told(String),
    /// A program we ran has told it already; its exit code passes through.
    Exit(u8),
}

/// A chore's end.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    /// A failure with the sentence that explains it.
    pub(crate) fn told(sentence: impl Into<String>) -> Self {
        Self::Told(sentence.into())
    }
}
