//! What an adapter returns from one snapshot of a machine: answers, not judgements.

use usher_kernel::{Timestamp, Unknown};

use super::accept::Report;
use super::issue::Token;
use super::refusal::Refusal;

/// The unjudged answers of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The authority that answered.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// How it was learned.
    pub source: Source,
    /// The stamp: no verb up to it was outstanding when the snapshot began.
    pub stamp: Token,
    /// What the provider said of this machine: its record, that there is none, or nothing at all.
    pub reading: Result<Option<Result<Report, Refusal>>, Unknown>,
    /// What the lists of its provider say about its absence.
    pub listing: Listing,
    /// Whether nothing new may be begun.
    pub paused: bool,
    /// Whether a newer epoch holds the lease of the shard.
    pub superseded: bool,
    /// A token that was never used, should a command be recorded.
    pub fresh: Token,
}

/// How something was learned of a machine. All three are merged by the same rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The answer to a verb of ours, stamped with its own token.
    Acknowledgement,
    /// A question about this one machine.
    Get,
    /// A list of many. A machine that is missing in it is not gone.
    List,
}

/// What the lists of a provider say about the absence of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The last plausible one does not name it.
    Lacks,
    /// The last plausible one names it: a provider that does not know it contradicts
    /// itself.
    Names,
    /// The last one is implausible: too many machines vanished at once.
    Distrusted,
}
