//! Lists: everything, the changes since a cursor, or pages.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use usher_wire::fleet::{ListFilter, MachineState};

use super::cursor::Cursor;
use super::entry::Record;
use super::{ProviderState, Slot};

/// Part of a list.
#[derive(Debug)]
pub struct Page {
    /// The machines of this page.
    pub records: Vec<Arc<Record>>,
    /// Where the next list begins.
    pub next: Cursor,
}

impl ProviderState {
    /// The machines that match a filter. A limited list of certain states begins each time where
    /// the last one ended, so that callers that take one of many do not all take the same.
    pub fn list(&mut self, filter: &ListFilter) -> Page {
        let states = mask(&filter.states);
        let most = usize::try_from(filter.max_results).ok().filter(|it| *it > 0);
        let cursor = Cursor::from_text(self.nonce, &filter.since_revision);
        match (cursor, most) {
            (None, None) => self.since(0, states, usize::MAX),
            (None, Some(most)) => self.first(states, most),
            (Some(Cursor::Since(after)), most) => {
                self.since(after, states, most.unwrap_or(usize::MAX))
            }
            (Some(page @ Cursor::Page { .. }), most) => {
                self.page(page, states, most.unwrap_or(usize::MAX))
            }
        }
    }

    fn first(&mut self, states: u16, most: usize) -> Page {
        let head = self.head;
        let start = if states == ANY { 0 } else { self.start(states) };
        let page = Cursor::Page { head, start, after: start, wrapped: start == 0 };
        let page = self.page(page, states, most);
        if states != ANY
            && let Some(last) = page.records.last()
        {
            self.rotation.insert(states, last.revision);
        }
        page
    }

    fn start(&self, states: u16) -> u64 {
        self.rotation.get(&states).copied().filter(|it| *it < self.head).unwrap_or_default()
    }

    /// The changes after a revision, oldest first; a limited page continues after its last one.
    fn since(&self, after: u64, states: u16, most: usize) -> Page {
        let newer = self.by_revision.range((Excluded(after), Unbounded));
        let mut matching = newer.filter_map(|(_, id)| self.slots.get(id)).filter(is_one_of(states));
        let records: Vec<_> =
            matching.by_ref().take(most).map(|slot| Arc::clone(&slot.record)).collect();
        let next = match (matching.next(), records.last()) {
            (Some(_), Some(last)) => Cursor::Since(last.revision),
            (Some(_) | None, Some(_) | None) => Cursor::Since(self.head),
        };
        Page { records, next }
    }

    fn page(&self, page: Cursor, states: u16, most: usize) -> Page {
        let Cursor::Page { head, start, after, wrapped } = page else {
            return self.since(0, states, most);
        };
        let bounds = |from, to| (Excluded(from), Included(to));
        let (first, second) = if wrapped {
            let end = if start == 0 { head } else { start };
            (bounds(after, end.max(after)), None)
        } else {
            (bounds(after, head.max(after)), Some((Included(0), Included(start))))
        };
        let second = second.into_iter().flat_map(|it| self.by_revision.range(it));
        let ring = self
            .by_revision
            .range(first)
            .map(|it| (it, wrapped))
            .chain(second.map(|it| (it, true)))
            .filter_map(|((_, id), round)| Some((self.slots.get(id)?, round)));
        let mut matching = ring.filter(|(slot, _)| is_one_of(states)(slot));
        let mut last = None;
        let mut records = Vec::new();
        for (slot, round) in matching.by_ref().take(most) {
            last = Some((slot.record.revision, round));
            records.push(Arc::clone(&slot.record));
        }
        let next = match (matching.next(), last) {
            (Some(_), Some((after, wrapped))) => Cursor::Page { head, start, after, wrapped },
            (Some(_) | None, Some(_) | None) => Cursor::Since(head),
        };
        Page { records, next }
    }
}

/// Every state.
const ANY: u16 = u16::MAX;

/// The states as a bit set; an unknown number matches no machine.
fn mask(states: &[i32]) -> u16 {
    if states.is_empty() {
        return ANY;
    }
    let known = states.iter().filter_map(|it| MachineState::try_from(*it).ok());
    known.fold(0, |mask, state| mask | bit(state))
}

fn bit(state: MachineState) -> u16 {
    1 << u32::try_from(i32::from(state)).unwrap_or_default().min(14)
}

fn is_one_of(states: u16) -> impl Fn(&&Slot) -> bool {
    move |slot| states == ANY || states & bit(slot.record.state()) != 0
}
