//! The store's methods for the due-queue: claim, release, postpone, wake.

use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Timestamp, Trouble};
use uuid::Uuid;

use crate::error::Error;
use crate::port::WorkItem;
use crate::port::{Batch, Release};
use crate::store::{Inner, Store, verbs};

/// An item's queue entry, and the outcome of its last steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// The entry.
    pub entry: Entry,
    /// Why the newest step that wrote or was finished did what it did.
    pub reason: Option<String>,
    /// The error of the last step, if it was not finished.
    pub trouble: Option<String>,
    /// The database's time of this claim.
    pub now: Timestamp,
}

verbs! {
    /// Leases up to so many due items and reads their records; rows that break their own rules are
    /// parked.
    fn claim_due(count: u32) -> Result<Batch, Error>;
    /// Releases a lease after a step that changed nothing; `false` if a newer lease holder has
    /// the item, and then nothing changes.
    fn release(release: Release) -> Result<bool, Error>;
    /// Releases a lease after trouble, with the reason of the decision if there was one; `false`
    /// if a newer lease holder has the item, and then nothing changes.
    fn postpone(
        item: WorkItem,
        claim: Claim,
        trouble: Trouble,
        reason: Option<&'static str>
    ) -> Result<bool, Error>;
    /// Makes an item due now, also while it is leased; `false` if it is not in the queue.
    fn wake(item: WorkItem) -> Result<bool, Error>;
    /// Makes the items of these ids due now, in one transaction: the tombstone of a deleted
    /// resource, else the record's own item. How many are due. It is for changes outside: see the
    /// statement.
    fn wake_labels(ids: Vec<Uuid>) -> Result<u64, Error>;
    /// Makes every item due now, for what a watch may have missed.
    fn wake_all() -> Result<u64, Error>;
    /// Reads the entry of an item in the queue.
    fn entry(item: WorkItem) -> Result<Option<Entry>, Error>;
    /// Reads an item's queue entry, and the outcome of its last steps.
    fn queue_status(item: WorkItem) -> Result<Option<QueueStatus>, Error>;
}
