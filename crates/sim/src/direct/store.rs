//! The memory ledger: rows, identity rows, due-queue, events, one commit.

use usher_domain::direct::aggregate::Resource;
use usher_domain::direct::event::{Event, EventType};
use usher_domain::direct::reason::Reason;
use usher_domain::object::authority::Pin;
use usher_kernel::schedule::Entry;
use usher_kernel::{Record, Row, Timestamp, Trouble, Uid, Version};

use crate::direct::breakage::Breakage;

/// One direct resource's row.
#[derive(Clone, Debug)]
pub struct ResourceRow {
    /// The object it belongs to.
    pub object: u64,
    /// State, identity rows, version.
    pub record: Record<Resource>,
    /// Its place in the queue; a row that a restore lost has none.
    pub entry: Option<Entry>,
    /// Why it is where it is.
    pub reason: Option<Reason>,
}

/// One row of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// The row.
    pub resource: usize,
    /// The version the crossing was committed with.
    pub version: Version,
    /// The emitted event.
    pub event: Event,
}

/// What one transaction writes.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The version that must still hold.
    pub version: Option<Version>,
    /// The row as it shall be.
    pub next: Resource,
    /// The identity rows that change with it.
    pub rows: &'a [Row],
    /// Its event.
    pub event: Option<Event>,
    /// Why.
    pub reason: Reason,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

/// The whole store.
#[derive(Clone, Debug)]
pub struct Store {
    /// Every row there ever was.
    pub resources: Vec<ResourceRow>,
    /// The event log.
    pub events: Vec<EventRow>,
    /// What is pinned of the cloud.
    pub pin: Pin,
    /// Whether too much vanished from the cloud at once, until a person resets the guard.
    pub guard_tripped: bool,
    /// Whether too many objects vanished from the cluster at once, until a person resets the guard.
    pub cluster_guard_tripped: bool,
}

impl Default for Store {
    fn default() -> Self {
        let pin = Pin { identity: Uid::new("cloud"), revision: 0 };
        Self {
            resources: vec![],
            events: vec![],
            pin,
            guard_tripped: false,
            cluster_guard_tripped: false,
        }
    }
}

impl Store {
    /// The row of an object that no restore has lost.
    pub fn of(&self, object: u64) -> Option<usize> {
        let known = |it: &ResourceRow| it.object == object && it.entry.is_some();
        self.resources.iter().position(known)
    }

    /// Wakes the record of an object.
    pub fn wake(&mut self, object: u64, now: Timestamp) {
        let mine = self.resources.iter_mut().filter(|it| it.object == object);
        mine.filter_map(|it| it.entry.as_mut()).for_each(|entry| entry.wake(now));
    }

    /// Wakes every record: the listing that replaces what a watch missed.
    pub fn wake_all(&mut self, now: Timestamp) {
        let entries = self.resources.iter_mut().filter_map(|it| it.entry.as_mut());
        entries.for_each(|entry| entry.wake(now));
    }

    /// The only commit: writes a row if its version still matches, and its event.
    pub fn write(&mut self, index: usize, write: Write<'_>) -> Result<(), Trouble> {
        let Write { version, next, rows, event, reason, breakage } = write;
        let row = &mut self.resources[index];
        // What a restore lost cannot be written by a driver that still knows it.
        if row.entry.is_none() || version.is_some_and(|it| it != row.record.version) {
            return Err(Trouble::Conflict);
        }
        row.record.version = row.record.version.next();
        row.record.name_ledger = row.record.name_ledger.with(rows);
        row.record.state = next;
        row.reason = Some(reason);
        let version = row.record.version;
        if let Some(event) = event {
            let emitted = EventRow { resource: index, version, event };
            if breakage == Some(Breakage::TellTwice) {
                self.events.push(emitted.clone());
            }
            self.events.push(emitted);
        }
        Ok(())
    }

    /// How often a row emitted an event of this type.
    pub fn event_count(&self, index: usize, event_type: EventType) -> usize {
        let mine = self.events.iter().filter(|it| it.resource == index);
        mine.filter(|it| it.event.event_type() == event_type).count()
    }
}
