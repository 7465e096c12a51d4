//! When each item is looked after next: the earliest is found without asking the others.

use std::collections::{BTreeMap, BTreeSet};

use usher_kernel::Timestamp;

use super::watch::Item;

/// What is looked after, and when.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    times: BTreeMap<Item, Timestamp>,
    order: BTreeSet<(Timestamp, Item)>,
}

impl Agenda {
    /// Looks after an item then, or before if that was said.
    pub(super) fn soon(&mut self, item: Item, at: Timestamp) {
        if let Some(before) = self.times.get(&item).copied() {
            if before <= at {
                return;
            }
            self.order.remove(&(before, item.clone()));
        }
        self.times.insert(item.clone(), at);
        self.order.insert((at, item));
    }

    /// Looks after an item then, unless another time was said.
    pub(super) fn later(&mut self, item: Item, at: Timestamp) {
        if !self.times.contains_key(&item) {
            self.soon(item, at);
        }
    }

    /// When the next item is looked after.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes out what is due, the earliest first, up to so many.
    pub(super) fn take(&mut self, now: Timestamp, count: usize) -> Vec<Item> {
        let mut due = Vec::new();
        while due.len() < count
            && let Some((at, item)) = self.order.pop_first()
        {
            if at > now {
                self.order.insert((at, item));
                break;
            }
            self.times.remove(&item);
            due.push(item);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn item(name: &str) -> Item {
        Item::Unit(name.to_owned())
    }

    /// Red by: an item that is looked after twice, too late, or not at all.
    #[test]
    fn the_earlier_of_two_times_counts() {
        let mut agenda = Agenda::default();
        agenda.soon(item("a"), at(5));
        agenda.soon(item("a"), at(9));
        agenda.later(item("a"), at(1));
        agenda.soon(item("b"), at(7));
        agenda.soon(item("b"), at(3));
        agenda.later(item("c"), at(4));
        assert_eq!(agenda.next(), Some(at(3)));
        assert_eq!(agenda.take(at(2), 9), []);
        assert_eq!(agenda.take(at(9), 2), [item("b"), item("c")]);
        assert_eq!(agenda.take(at(9), 2), [item("a")]);
        assert_eq!((agenda.next(), agenda.take(at(9), 9)), (None, vec![]));
    }
}
