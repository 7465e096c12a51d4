//! Sinks: receivers of the log over HTTP, their cursors, and the leases of their relays.

use std::time::Duration;

use usher_domain::object::slug::Slug;
use usher_domain::sinks::{Parked, Sink};
use usher_kernel::{Fence, Timestamp};

use crate::error::Error;
use crate::port::Cursor;
use crate::store::{Inner, Store, verbs};

/// Where a new sink begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// With everything that is still kept.
    Oldest,
    /// With events from now on.
    Now,
}

/// A sink and the state of its deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkState {
    /// The sink.
    pub sink: Sink,
    /// Everything up to this place of the log was delivered.
    pub cursor: Cursor,
    /// When the last delivery was recorded.
    pub delivered_at: Option<Timestamp>,
    /// Until when it is leased.
    pub lease_until: Option<Timestamp>,
    /// Counts the leases.
    pub fence: Fence,
    /// How often it failed since the last delivery.
    pub attempts: u32,
    /// Since when it fails.
    pub failing_since: Option<Timestamp>,
    /// When it is tried again.
    pub retry_at: Option<Timestamp>,
    /// The last error.
    pub trouble: Option<String>,
    /// Why nothing is delivered until it is resumed.
    pub parked: Option<Parked>,
    /// The database's time of this read.
    pub now: Timestamp,
}

/// How a round of deliveries ended; the lease is released with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// Whose round it was, as it was leased.
    pub lease: SinkState,
    /// Everything up to this place was delivered.
    pub cursor: Cursor,
    /// What follows from the last answer.
    pub end: RoundEnd,
}

/// What follows from the last answer of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// Nothing: everything was taken.
    Done,
    /// Another try after this pause.
    Again {
        /// How long to wait.
        pause: Duration,
        /// The error.
        trouble: String,
    },
    /// No more deliveries until it is resumed.
    Park {
        /// Why.
        why: Parked,
        /// The error.
        trouble: String,
    },
}

verbs! {
    /// Creates a sink.
    fn create_sink(it: Sink, from: Beginning) -> Result<(), Error>;
    /// Changes a sink's URL and authentication; its cursor stays.
    fn change_sink(it: Sink) -> Result<(), Error>;
    /// Removes a sink; nothing waits for it any more.
    fn delete_sink(name: Slug) -> Result<(), Error>;
    /// Stops deliveries until [`Store::resume_sink`].
    fn park_sink(name: Slug) -> Result<(), Error>;
    /// Resumes deliveries at once: from this cursor, else where they stopped.
    fn resume_sink(name: Slug, from: Option<Cursor>) -> Result<(), Error>;
    /// Reads every sink, in the order of their names.
    fn sinks() -> Result<Vec<SinkState>, Error>;
    /// Reads a sink.
    fn sink(name: &Slug) -> Result<Option<SinkState>, Error>;
    /// Leases a sink for so long, unless another relay delivers, it waits, or it is parked.
    fn lease_sink(name: Slug, span: Duration) -> Result<Option<SinkState>, Error>;
    /// Ends a round of deliveries; `false` if the lease was lost, which changes nothing.
    fn settle_sink(it: Settlement) -> Result<bool, Error>;
}
