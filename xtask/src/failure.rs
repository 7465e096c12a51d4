//! How a chore ends when it does not end well.

/// Why a chore failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The sentence to print.
    Message(String),
    /// A program we ran has printed it already; its exit code passes through.
    Exit(u8),
}

/// A chore's end.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    /// A failure with the sentence that explains it.
    pub(crate) fn message(sentence: impl Into<String>) -> Self {
        Self::Message(sentence.into())
    }
}
