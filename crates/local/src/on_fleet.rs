//! What a keeper knows of parts whose machines are a fleet's: which part a holder has, who waits
//! for a free machine, and who holds one without a part.

use std::collections::BTreeMap;
use std::time::Duration;

use usher_domain::object::id::ResourceId;
use usher_kernel::Timestamp;

use super::watch::named;

/// How soon, and how late at most, somebody is looked at again who holds a machine without a part
/// and is not done with it.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOOK: Duration = Duration::from_mins(5);

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct OnFleet {
    /// The part of each holder, by its name.
    parts: BTreeMap<ResourceId, String>,
    /// The parts that wait for a free machine, the longest first, and the place of each.
    queue: BTreeMap<u64, String>,
    waiting: BTreeMap<String, u64>,
    /// The parts that were told of a machine and have not looked yet, with the place they had.
    called: BTreeMap<String, u64>,
    /// How many places were given.
    places: u64,
    /// Holders whose part is not there.
    strays: BTreeMap<ResourceId, Stray>,
    /// When it is asked who holds a machine, if it shall be.
    pub(super) census_at: Option<Timestamp>,
}

/// When somebody is looked at, and how long after that again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stray {
    at: Timestamp,
    pause: Duration,
}

impl OnFleet {
    /// The part of a holder.
    pub(super) fn part_of(&self, holder: ResourceId) -> Option<&str> {
        self.parts.get(&holder).map(String::as_str)
    }

    /// A part that stands.
    pub(super) fn note_part(&mut self, holder: ResourceId, name: &str) {
        if self.part_of(holder) != Some(name) {
            self.parts.insert(holder, name.to_owned());
        }
        self.strays.remove(&holder);
    }

    /// A part that does not stand any more: a machine may still be held for it.
    pub(super) fn note_gone(&mut self, name: &str, now: Timestamp) {
        let Some(holder) = holder_in(name) else { return };
        if self.part_of(holder).is_none_or(|it| it == name) {
            self.parts.remove(&holder);
            self.note_stray(holder, now);
        }
    }

    /// Of those who hold a machine, whoever has no part.
    pub(super) fn note_holders(&mut self, mut holders: Vec<ResourceId>, now: Timestamp) {
        holders.retain(|it| !self.parts.contains_key(it));
        for holder in holders {
            self.note_stray(holder, now);
        }
    }

    /// Somebody who may hold a machine without a part.
    pub(super) fn note_stray(&mut self, holder: ResourceId, now: Timestamp) {
        self.strays.insert(holder, Stray { at: now, pause: FIRST_LOOK });
    }

    /// When somebody is to be looked at, or everybody.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.strays.values().map(|it| it.at).chain(self.census_at).min()
    }

    /// Who is to be looked at now.
    pub(super) fn due_strays(&self, now: Timestamp) -> Vec<ResourceId> {
        self.strays.iter().filter(|(_, it)| it.at <= now).map(|(holder, _)| *holder).collect()
    }

    /// Looks no more, until something is heard.
    pub(super) fn rest(&mut self, holder: ResourceId) {
        self.strays.remove(&holder);
    }

    /// Looks again, later each time.
    pub(super) fn put_off(&mut self, holder: ResourceId, now: Timestamp) {
        if let Some(stray) = self.strays.get_mut(&holder) {
            stray.at = now.after(stray.pause);
            stray.pause = LAST_LOOK.min(stray.pause * 2);
        }
    }

    /// A part that found no machine free. Whoever was called in vain has the place it had.
    pub(super) fn wait(&mut self, name: &str) {
        if self.waiting.contains_key(name) {
            return;
        }
        let place = self.called.remove(name).unwrap_or(self.places);
        self.places += 1;
        self.queue.insert(place, name.to_owned());
        self.waiting.insert(name.to_owned(), place);
    }

    /// A part that waits for none; whether it was called, so that another one may be.
    pub(super) fn wait_no_more(&mut self, name: &str) -> bool {
        if let Some(place) = self.waiting.remove(name) {
            self.queue.remove(&place);
        }
        self.called.remove(name).is_some()
    }

    /// Calls whoever waits longest.
    pub(super) fn call(&mut self) -> Option<String> {
        let (place, first) = self.queue.pop_first()?;
        self.waiting.remove(&first);
        self.called.insert(first.clone(), place);
        Some(first)
    }
}

/// The resource whose id is in a name.
pub(super) fn holder_in(name: &str) -> Option<ResourceId> {
    named(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a1e41e-a79f-7462-9395-0da9d55e18a1";

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn holder() -> ResourceId {
        ID.parse().unwrap()
    }

    /// Red by: an old part that takes the new one's place when it goes.
    #[test]
    fn whoever_has_another_part_is_no_stray() {
        let [old, new] = ["old", "new"].map(|it| format!("pr-{ID}-machine-{it}"));
        let mut fleet = OnFleet::default();
        fleet.note_part(holder(), &old);
        fleet.note_part(holder(), &new);
        fleet.note_gone(&old, at(1));
        assert_eq!((fleet.part_of(holder()), fleet.next()), (Some(new.as_str()), None));
        fleet.note_gone(&new, at(2));
        assert_eq!((fleet.part_of(holder()), fleet.due_strays(at(2))), (None, vec![holder()]));
        fleet.note_part(holder(), &old);
        fleet.note_holders(vec![holder()], at(3));
        assert_eq!(fleet.next(), None);
    }

    /// Red by: somebody who is asked for as often as ever for as long as he lives.
    #[test]
    fn a_stray_that_is_not_done_is_looked_at_less_and_less() {
        let mut fleet = OnFleet::default();
        fleet.note_holders(vec![holder()], at(0));
        let mut looks = vec![];
        for _ in 0..12 {
            let next = fleet.next().unwrap();
            assert_eq!(fleet.due_strays(next), [holder()]);
            fleet.put_off(holder(), next);
            looks.push(fleet.next().unwrap().since(next).as_secs());
        }
        assert_eq!(looks, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        fleet.rest(holder());
        assert_eq!(fleet.next(), None);
    }

    /// Red by: a machine that stays free because whoever was told of it needed none any more.
    // Requirement: F-77
    #[test]
    fn whoever_waits_no_more_is_passed_over() {
        let mut fleet = OnFleet::default();
        for name in ["a", "b", "a"] {
            fleet.wait(name);
        }
        assert!(!fleet.wait_no_more("a"), "nobody had called it");
        assert_eq!(fleet.call(), Some("b".to_owned()));
        assert_eq!(fleet.call(), None);
        assert!(fleet.wait_no_more("b"), "another one may be called in its place");
        assert!(!fleet.wait_no_more("b"));
    }

    /// Red by: somebody who is overtaken each time that a machine was free for a moment.
    // Requirement: F-77
    #[test]
    fn whoever_was_called_in_vain_has_the_place_it_had() {
        let mut fleet = OnFleet::default();
        for name in ["a", "b", "c"] {
            fleet.wait(name);
        }
        for _ in 0..2 {
            let called = [fleet.call(), fleet.call()].map(Option::unwrap);
            assert_eq!(called, ["a", "b"]);
            for name in called {
                fleet.wait(&name);
            }
        }
        assert!(!fleet.wait_no_more("a"));
        fleet.wait("a");
        let order: Vec<String> = std::iter::from_fn(|| fleet.call()).collect();
        assert_eq!(order, ["b", "c", "a"], "whoever waits anew waits behind the others");
    }
}
