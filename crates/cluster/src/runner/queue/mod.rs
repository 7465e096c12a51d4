//! The queue of a runner, in memory, by the rules of [`usher_kernel::schedule`].
//!
//! **Invariants**
//! - Items are claimed in the order in which they became due.
//! - An item is among the due ones if it has a timer, is not running and not parked.
//! - A claim belongs to a term: after that has ended nothing is claimed or released.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use usher_kernel::lifecycle::Wake;
use usher_kernel::schedule::{Claim, Entry, Jitter, Pace, back_off};
use usher_kernel::{Timestamp, Trouble};

use crate::lease::Term;
use crate::watches::{self, Interest};

/// How many steps in a row are followed by the next one at once. After that the item backs off:
/// another writer undoes what it does.
const AT_ONCE: u32 = 8;

/// The due-queue of one runner.
pub(super) struct Queue<K> {
    state: Mutex<State<K>>,
    /// Notified when the first item that is due is another one.
    changed: Notify,
    pace: Pace,
    jitter: Arc<dyn Fn() -> Jitter + Send + Sync>,
}

/// An item that may be stepped.
pub(super) struct Claimed<K> {
    pub(super) key: Arc<K>,
    pub(super) claim: Claim,
    pub(super) may_act_until: Option<Timestamp>,
    pub(super) wake: watches::Wake,
}

/// How a step ended, as far as the queue is concerned.
pub(super) enum Ended {
    Done { wake: Wake, acted: bool, interests: Vec<Interest> },
    Gone,
    Failed { trouble: Trouble, interests: Option<Vec<Interest>> },
}

/// Where an item is after its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Queued,
    Parked,
    Forgotten,
}

struct State<K> {
    term: Option<Term>,
    slots: BTreeMap<Arc<K>, Slot>,
    due: BTreeMap<(Timestamp, u64), Arc<K>>,
    places: u64,
}

struct Slot {
    entry: Entry,
    place: Option<(Timestamp, u64)>,
    is_running: bool,
    /// Steps in a row after which the next one was due at once.
    at_once: u32,
    wake: watches::Wake,
    interests: Vec<Interest>,
    /// Those of the last step, if it failed.
    tried: Vec<Interest>,
}

impl<K: Ord + Clone> Queue<K> {
    pub(super) fn new(pace: Pace, jitter: Arc<dyn Fn() -> Jitter + Send + Sync>) -> Self {
        let (term, slots, due) = (None, BTreeMap::new(), BTreeMap::new());
        let state = Mutex::new(State { term, slots, due, places: 0 });
        Self { state, changed: Notify::new(), pace, jitter }
    }

    /// Begins a term, with nothing known.
    pub(super) fn begin(&self, term: Term) {
        self.replace(Some(term));
    }

    /// Ends the term. Nothing is known after that.
    pub(super) fn end(&self) {
        self.replace(None);
    }

    fn replace(&self, term: Option<Term>) {
        let mut state = self.lock();
        state.term = term;
        state.due.clear();
        let known = std::mem::take(&mut state.slots);
        // An interest that ends takes the lock of the watches, which wake items.
        drop(state);
        drop(known);
    }

    pub(super) fn len(&self) -> usize {
        self.lock().slots.len()
    }

    pub(super) fn wake(&self, key: &K) {
        self.change(key, Entry::wake);
    }

    pub(super) fn unpark(&self, key: &K) {
        self.change(key, Entry::unpark);
    }

    /// Makes each item due that is known.
    pub(super) fn wake_all(&self) {
        let mut state = self.lock();
        let keys: Vec<Arc<K>> = state.slots.keys().cloned().collect();
        let Some(now) = state.now() else { return };
        for key in keys {
            state.update(&key, |slot| slot.entry.wake(now));
        }
        drop(state);
        self.changed.notify_one();
    }

    fn change(&self, key: &K, change: impl FnOnce(&mut Entry, Timestamp)) {
        let mut state = self.lock();
        let Some(now) = state.now() else { return };
        let Some(key) = state.slots.get_key_value(key).map(|(key, _)| Arc::clone(key)) else {
            return;
        };
        let is_first = state.update(&key, |slot| change(&mut slot.entry, now));
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Claims the first item that is due.
    pub(super) fn claim(&self) -> Option<Claimed<K>> {
        let mut state = self.lock();
        let now = state.now()?;
        loop {
            let (place, key) = state.due.first_key_value()?;
            if place.0 > now {
                return None;
            }
            let key = Arc::clone(key);
            state.due.pop_first();
            let Some(slot) = state.slots.get_mut(&key) else { continue };
            slot.place = None;
            let Some(claim) = slot.entry.claim(&self.pace, (self.jitter)(), now) else { continue };
            slot.is_running = true;
            let may_act_until = slot.entry.unreturned_until;
            return Some(Claimed { key, claim, may_act_until, wake: Arc::clone(&slot.wake) });
        }
    }

    /// Gives an item back after its step.
    pub(super) fn release(
        &self,
        (key, claim): (&Arc<K>, &Claim),
        deaf: Duration,
        ended: Ended,
    ) -> (After, bool) {
        let mut state = self.lock();
        let Some(now) = state.now() else { return (After::Forgotten, false) };
        let Some(slot) = state.slots.get_mut(key) else { return (After::Forgotten, false) };
        slot.is_running = false;
        let mut is_deaf = false;
        let dropped = match ended {
            Ended::Gone if slot.entry.wake_seq == claim.wake_seq => {
                let gone = state.slots.remove(key);
                drop(state);
                drop(gone);
                return (After::Forgotten, false);
            }
            // It may have been created anew.
            Ended::Gone => {
                slot.entry.release(claim, Wake::Now, now);
                Vec::new()
            }
            Ended::Done { wake, acted, interests } => {
                let mut before = std::mem::replace(&mut slot.interests, interests);
                before.append(&mut slot.tried);
                let is_due = acted || wake == Wake::Now;
                slot.at_once = if is_due { slot.at_once.saturating_add(1) } else { 0 };
                let wake = match slot.at_once.saturating_sub(AT_ONCE) {
                    0 if is_due => Wake::Now,
                    0 => wake,
                    more => Wake::At(now.after(back_off(&self.pace, more, (self.jitter)()))),
                };
                let poll = now.after(deaf);
                let rests = match wake {
                    Wake::OnChange => true,
                    Wake::At(at) => at > poll,
                    Wake::Now | Wake::Never => false,
                };
                is_deaf = rests && slot.needs_poll();
                let wake = if is_deaf { Wake::At(poll) } else { wake };
                slot.entry.release(claim, wake, now);
                before
            }
            Ended::Failed { trouble, interests } => {
                let at = ((self.jitter)(), now);
                slot.entry.postpone(claim, &trouble, &self.pace, at);
                interests.map_or_else(Vec::new, |it| std::mem::replace(&mut slot.tried, it))
            }
        };
        let after = if slot.entry.parked { After::Parked } else { After::Queued };
        let is_first = state.update(key, |_| ());
        drop(state);
        drop(dropped);
        if is_first {
            self.changed.notify_one();
        }
        (after, is_deaf)
    }

    /// Resolves when an item is due.
    pub(super) async fn ready(&self) {
        loop {
            let changed = self.changed.notified();
            let left = {
                let state = self.lock();
                let first = state.due.first_key_value().map(|(place, _)| place.0);
                first.zip(state.now()).map(|(due, now)| (due <= now, due.since(now)))
            };
            match left {
                Some((true, _)) => return,
                Some((false, left)) => {
                    let _ = tokio::time::timeout(left, changed).await;
                }
                None => changed.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone + Send + Sync + 'static> Queue<K> {
    /// Makes an item due, known or not.
    pub(super) fn add(self: &Arc<Self>, key: K) {
        let mut state = self.lock();
        let Some(term) = state.term.as_ref() else { return };
        let (now, heard_until) = (term.now(), term.heard_until());
        let known = state.slots.get_key_value(&key).map(|(key, _)| Arc::clone(key));
        let is_first = if let Some(key) = known {
            state.update(&key, |slot| slot.entry.wake(now))
        } else {
            let key = Arc::new(key);
            let wake: watches::Wake = {
                let (queue, key) = (Arc::downgrade(self), Arc::clone(&key));
                Arc::new(move || {
                    if let Some(queue) = queue.upgrade() {
                        queue.wake(&key);
                    }
                })
            };
            let entry = Entry { unreturned_until: heard_until, ..Entry::new(now) };
            let (place, is_running, at_once) = (None, false, 0);
            let (interests, tried) = (Vec::new(), Vec::new());
            let slot = Slot { entry, place, is_running, at_once, wake, interests, tried };
            state.slots.insert(Arc::clone(&key), slot);
            state.update(&key, |_| ())
        };
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
    }
}

impl<K: Ord> State<K> {
    /// Without a term there is no time.
    fn now(&self) -> Option<Timestamp> {
        self.term.as_ref().map(Term::now)
    }

    /// Changes an item and puts it in its place; whether that is the first one.
    fn update(&mut self, key: &Arc<K>, change: impl FnOnce(&mut Slot)) -> bool {
        let Some(slot) = self.slots.get_mut(key) else { return false };
        change(slot);
        let due = slot.entry.due.filter(|_| !slot.is_running && !slot.entry.parked);
        if slot.place.map(|it| it.0) == due {
            return false;
        }
        if let Some(place) = slot.place.take() {
            self.due.remove(&place);
        }
        let Some(due) = due else { return false };
        let place = (due, self.places);
        self.places += 1;
        slot.place = Some(place);
        self.due.insert(place, Arc::clone(key));
        self.due.first_key_value().is_some_and(|(first, _)| *first == place)
    }
}

impl Slot {
    fn needs_poll(&self) -> bool {
        self.interests.iter().any(|it| it.hearing().needs_poll())
    }
}

#[cfg(test)]
mod tests;
