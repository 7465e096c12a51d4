//! What must never happen, by name, and what the checkers remember by themselves.

use std::collections::{BTreeMap, BTreeSet};

use usher_domain::usage::aggregate::{Spec, Usage};
use usher_domain::usage::attempt::{Attempt, Origin, Outcome, Progress};
use usher_domain::usage::event::Event;
use usher_domain::usage::facts::Resolve;
use usher_domain::usage::phase::Phase;
use usher_domain::usage::reference::{ObjectKey, Role};
use usher_kernel::{NameState, Timestamp, Uid};

use crate::clock::{LEASE, Tick, timestamp};
use crate::sim_world::{EveryWorld, SimWorld as _, under_way};
use crate::usage::admission::Pending;
use crate::usage::circle::named;
use crate::usage::execute::Request;
use crate::usage::outside::{Object, number, uid};
use crate::usage::state::State;
use crate::words::words;

words! {
    /// A rule that the world is held to.
    Checker {
        /// A use ends when no recorded user exists.
        // Requirement: G-3, G-27
        UserFirst = "user-first",
        /// What was reported protected is not deleted while its user exists.
        // Requirement: G-3, G-15
        InUseStays = "in-use-stays",
        /// No declaration is admitted that closes a circle with what is reported protected.
        // Requirement: G-17
        CircleRefused = "circle-refused",
        /// Protection is reported after a deletion was refused.
        // Requirement: G-5
        RefusedFirst = "protected-means-refused",
        /// Nothing is marked for a Usage that our finalizer never held.
        // Requirement: G-2
        FinalizerFirst = "finalizer-first",
        /// The finalizer is removed when the users are gone and no deletion is owed.
        // Requirement: G-2
        FinalizerLast = "finalizer-last",
        /// What was released does not stay: marks, Usages, what a declaration meant before.
        // Requirement: G-4, G-9, G-26
        NothingStays = "nothing-released-stays",
        /// A recorded deletion is done, or no longer requested.
        // Requirement: G-7
        PromiseKept = "promise-kept",
        /// A replay is not repeated once its object is seen to be in deletion.
        // Requirement: G-23
        ReplayOnce = "replay-once",
        /// No object is deleted by a replay but the one whose deletion was requested.
        // Requirement: G-23
        OnlyWhatWasAsked = "only-what-was-asked",
        /// What was withdrawn, has expired or was requested under other owners is not replayed.
        // Requirement: G-8
        NotWanted = "not-wanted-not-replayed",
        /// What no Usage refers to is not touched.
        // Requirement: G-11
        ForeignUntouched = "foreign-untouched",
        /// An object is marked only under the uid that is on record.
        // Requirement: G-24
        NameBeforeUse = "name-before-use",
        /// Only what was really requested is recorded.
        // Requirement: G-12
        NoTrace = "dry-run-leaves-no-trace",
        /// A deletion is never allowed beside a holder.
        // Requirement: G-13
        CacheDenies = "cache-never-allows",
        /// A mark is not taken off beside a holder.
        // Requirement: G-6
        MarkStays = "mark-stays",
        /// When idle, nothing is written.
        // Requirement: G-22
        QuietAtRest = "quiet-at-rest",
    }
}

/// What the checkers remember, independent of what the product does.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// What was reported protected: Usage and object, and its users then. A promise ends by
    /// what happens outside, never by what the product says.
    pub promises: BTreeMap<(u64, u64), BTreeSet<u64>>,
    /// Usages and objects whose deletion was refused on their account.
    pub refused: BTreeSet<(u64, u64)>,
    /// Usages that our finalizer held.
    pub held: BTreeSet<u64>,
    /// Usages and the uids that they had on record before they marked.
    pub recorded: BTreeSet<(u64, u64)>,
    /// Every user ever recorded of what a Usage refers to.
    pub users: BTreeMap<u64, BTreeSet<u64>>,
    /// Objects that could not be protected: stripped by force, or gone with their kind.
    pub excused: BTreeSet<u64>,
    /// Deletions that were really requested and denied.
    pub denied: BTreeSet<(Uid, Timestamp)>,
    /// Deletions on record that were not done yet.
    pub owed: BTreeMap<u64, Attempt>,
    /// When a Usage that had the deletion of an object on record was lost by force.
    pub lost: BTreeMap<u64, Tick>,
    /// When the deletion of an object was withdrawn.
    pub withdrawn: BTreeMap<u64, Timestamp>,
    /// Names under which something existed.
    pub seen: BTreeSet<ObjectKey>,
    /// When our drivers last wrote something.
    pub last_write: Tick,
}

/// Whether what is on record comes from what is declared.
fn means_what_it_says(usage: &Usage) -> bool {
    let declared = usage.spec.as_ref().ok().map(|it| &it.of);
    usage.status.of.as_ref().map(|it| &it.from) == declared
}

/// Whether the users that are selected may include what is used.
fn selects(spec: &Spec, of: &ObjectKey) -> bool {
    let by = spec.by.as_ref().filter(|it| it.is_selector());
    by.is_some_and(|it| it.key(&of.name) == *of)
}

impl State {
    fn exists(&self, place: u64) -> bool {
        self.outside.by_uid(place).is_some()
    }

    /// The deletion of something reported protected is requested.
    pub(crate) fn check_in_use(&mut self, place: u64) {
        let Some(object) = self.outside.by_uid(place) else { return };
        if object.note.is_some() || self.log.excused.contains(&place) {
            return;
        }
        let broken = self.log.promises.iter().find(|((usage, target), users)| {
            let usage = self.outside.by_uid(*usage);
            let wanted = usage.is_some_and(|it| it.deleting.is_none());
            // A Usage being deleted that our finalizer does not hold can hold nothing.
            let body = usage.and_then(|it| it.body.as_ref());
            let holds = wanted || body.is_some_and(|it| it.finalizer);
            let used = users.iter().any(|it| self.exists(*it));
            *target == place && holds && (used || (users.is_empty() && wanted))
        });
        if let Some(((usage, _), users)) = broken {
            let what = format!("{} is deleted although {usage} holds it for {users:?}", object.key);
            self.wrong(Checker::InUseStays, what);
        }
    }

    /// This object could not be protected.
    pub(crate) fn excuse(&mut self, place: u64) {
        self.log.excused.insert(place);
    }

    /// A Usage refers to something else from now on.
    pub(crate) fn forgive(&mut self, usage: u64) {
        self.log.promises.retain(|it, _| it.0 != usage);
    }

    /// A deletion that was not meant was refused on account of a Usage.
    pub(crate) fn note_refused(&mut self, usage: u64, place: u64) {
        self.log.refused.insert((usage, place));
        self.log.excused.remove(&place);
    }

    /// A deletion is on record.
    pub(crate) fn note_owed(&mut self, usage: &Usage, attempt: &Attempt) {
        if let Some(kept) = usage.attempt(&attempt.uid) {
            self.log.owed.insert(number(&attempt.uid), kept.clone());
        }
    }

    /// A recorded deletion was withdrawn.
    pub(crate) fn note_withdrawn(&mut self, uid: &Uid, now: Timestamp) {
        self.log.withdrawn.insert(number(uid), now);
        self.log.owed.remove(&number(uid));
    }

    /// Something is gone: whatever was promised of it, or by it, is over.
    pub(crate) fn check_gone(&mut self, place: u64) {
        let Some(object) = self.outside.by_uid(place) else { return };
        self.log.seen.insert(object.key.clone());
        let attempts = object.body.iter().flat_map(|it| &it.status.attempts);
        let lost: Vec<Uid> = attempts.map(|it| it.uid.clone()).collect();
        // Only a Usage whose finalizer was taken away by force goes with something on record.
        for it in lost {
            self.log.lost.insert(number(&it), self.base.tick);
            self.forget_owed(&uid(place), &it);
        }
        self.log.owed.remove(&place);
        self.log.promises.retain(|it, _| it.0 != place && it.1 != place);
        self.log.users.remove(&place);
    }

    /// Only what was really requested is recorded.
    pub(crate) fn check_asked(&mut self, attempt: &Attempt) {
        if !self.log.denied.contains(&(attempt.uid.clone(), attempt.at)) {
            let what = format!("a deletion of {} was recorded that was not meant", attempt.object);
            self.wrong(Checker::NoTrace, what);
        }
    }

    /// An object is marked.
    pub(crate) fn check_marking(&mut self, usage: u64, place: u64) {
        let stranger = self.outside.by_uid(place).is_some_and(|it| it.app == "theirs");
        if stranger {
            self.wrong(Checker::ForeignUntouched, format!("{place} was marked"));
        }
        if !self.log.held.contains(&usage) {
            let what = format!("{usage} marks {place} before its finalizer is on");
            self.wrong(Checker::FinalizerFirst, what);
        }
        if !self.log.recorded.contains(&(usage, place)) {
            let what = format!("{usage} marks {place}, whose uid it has not on record");
            self.wrong(Checker::NameBeforeUse, what);
        }
    }

    /// A mark was taken off.
    pub(crate) fn check_unmarked(&mut self, place: u64) {
        let Some(key) = self.outside.by_uid(place).map(|it| it.key.clone()) else { return };
        if self.live_index().holders(&key).count() > 0 {
            self.wrong(Checker::MarkStays, format!("the mark of {key} is removed beside a holder"));
        }
    }

    /// The finalizer of a Usage is removed.
    pub(crate) fn check_letting_go(&mut self, usage: u64) {
        let users = self.log.users.get(&usage).into_iter().flatten();
        if let Some(user) = users.copied().find(|it| self.exists(*it)) {
            let what = format!("{usage} is released although its user {user} exists");
            self.wrong(Checker::FinalizerLast, what);
        }
        let body = self.outside.by_uid(usage).and_then(|it| it.body.as_ref());
        if body.is_some_and(|it| !it.status.attempts.is_empty()) {
            let what = format!("{usage} is let go although it owes a deletion");
            self.wrong(Checker::FinalizerLast, what);
        }
    }

    /// A replay arrives.
    pub(crate) fn check_replay(&mut self, request: &Request, place: u64, uid: &Uid) {
        if number(uid) != place {
            let what = format!("the deletion of {uid} is replayed onto {place}");
            self.wrong(Checker::OnlyWhatWasAsked, what);
        }
        let since = self.outside.by_uid(place).and_then(|it| it.deleting);
        if since.is_some_and(|since| since < request.observed_at) {
            let what = format!("the deletion of {place} is repeated although it was seen to go");
            self.wrong(Checker::ReplayOnce, what);
        }
        if let Some(attempt) = self.log.owed.get(&place)
            && attempt.expires_at <= timestamp(request.observed_at + self.base.skew)
            && since.is_none()
        {
            self.wrong(Checker::NotWanted, format!("the deletion of {place} had run out"));
        }
    }

    /// A replay had an effect.
    pub(crate) fn check_replayed(&mut self, sender: u64, place: u64, uid: &Uid) {
        let usage = self.outside.by_uid(sender).and_then(Object::usage);
        let own = usage.and_then(|it| it.attempt(uid).cloned());
        let owed = own.or_else(|| self.log.owed.get(&number(uid)).cloned());
        let unwanted =
            owed.as_ref().is_none_or(|it| matches!(it.progress, Progress::Withdrawn { .. }));
        // What was requested again may have been lost by force while the replay was in flight.
        if unwanted && !self.was_lost(place) && self.log.withdrawn.contains_key(&place) {
            self.wrong(Checker::NotWanted, format!("the deletion of {place} was withdrawn"));
        }
        let owners = self.outside.by_uid(place).map(Object::owner_uids);
        if let Some(Origin::Collected { owners: before }) = owed.map(|it| it.origin)
            && owners.is_some_and(|it| it != before)
        {
            let what = format!("the collector deleted {place} under other owners");
            self.wrong(Checker::NotWanted, what);
        }
    }

    /// A Usage was written by its own reconciler.
    pub(crate) fn check_commit(&mut self, before: &Usage, event: Option<&Event>) {
        let place = number(&before.uid);
        let Some(after) = self.outside.by_uid(place).and_then(Object::record) else { return };
        let rows = after.name_ledger.rows();
        let uids = |role: Role, open: bool| {
            let rows = rows.iter().filter(move |it| {
                role.key(&it.name).is_some() && (!open || it.state == NameState::Seen)
            });
            rows.filter_map(|it| it.uid.as_ref().map(number)).collect::<Vec<u64>>()
        };
        let marks = uids(Role::Mark, true);
        self.log.recorded.extend(marks.into_iter().map(|it| (place, it)));
        // A user that comes when the use is over uses nothing.
        if before.status.phase.holds() || after.state.status.phase.holds() {
            let users = uids(Role::User, false);
            self.log.users.entry(place).or_default().extend(users);
        }
        let unheld = before.deleting && !before.finalizer;
        let ends = before.status.phase.holds() && !after.state.status.phase.holds();
        let alive = self.log.users.get(&place).into_iter().flatten();
        let alive = alive.copied().find(|it| self.exists(*it));
        if let Some(user) = alive.filter(|_| ends && !unheld) {
            let what = format!("{place} lets go although its user {user} exists");
            self.wrong(Checker::UserFirst, what);
        }
        match event {
            None | Some(Event::Exposed | Event::Released) => {}
            Some(Event::Protected) => self.check_protected(&after.state),
            Some(Event::AttemptSettled { uid, outcome, .. }) => {
                self.check_settled(before, uid, *outcome);
            }
        }
        self.forgive_circles();
    }

    fn check_protected(&mut self, usage: &Usage) {
        let place = number(&usage.uid);
        let users: BTreeSet<u64> =
            self.log.users.get(&place).into_iter().flatten().copied().collect();
        let users: BTreeSet<u64> = users.into_iter().filter(|it| self.exists(*it)).collect();
        let name_ledger =
            self.outside.by_uid(place).and_then(|it| it.body.as_ref()).map(|it| &it.name_ledger);
        let recorded = usage.targets().iter().filter_map(|key| {
            let row = name_ledger?.seen(&Role::Mark.name(key))?;
            row.uid.as_ref().map(number)
        });
        // What an edited declaration meant before is not promised any more.
        let declared = means_what_it_says(usage);
        for target in recorded.collect::<Vec<u64>>() {
            if !self.log.refused.contains(&(place, target)) {
                let what = format!("{place} reports {target} protected but refused no deletion");
                self.wrong(Checker::RefusedFirst, what);
            }
            let exists = self.exists(target);
            if exists && declared && (!users.is_empty() || !usage.has_user()) {
                self.log.promises.insert((place, target), users.clone());
            }
        }
    }

    /// A deletion on record is settled as it should be.
    fn check_settled(&mut self, usage: &Usage, uid: &Uid, outcome: Outcome) {
        let place = number(uid);
        let now = self.now();
        let object = self.outside.by_uid(place);
        let attempt = usage.attempt(uid);
        let fair = match outcome {
            Outcome::Deleted => object.is_none_or(|it| it.deleting.is_some()),
            Outcome::Withdrawn => self.log.withdrawn.contains_key(&place),
            Outcome::Expired => attempt.is_some_and(|it| it.expires_at <= now),
            Outcome::NotReplayed => !usage.replays(),
            Outcome::OwnersChanged => {
                let owners = object.map(Object::owner_uids);
                let before = attempt.map(|it| it.origin.clone());
                object.is_none() || before != owners.map(|owners| Origin::Collected { owners })
            }
            Outcome::HandedOver => {
                let mut others = self.outside.usages().filter(|it| it.uid != usage.uid);
                // The new holder may have been lost since the snapshot.
                others.any(|it| it.attempt(uid).is_some())
                    || self.was_lost(place)
                    || object.is_none_or(|it| it.deleting.is_some())
                    || !self.log.owed.contains_key(&place)
            }
        };
        if !fair {
            let what = format!("the deletion of {place} is settled as {outcome}, which is not so");
            self.wrong(Checker::PromiseKept, what);
        }
        self.forget_owed(&usage.uid, uid);
    }

    /// Whether the record of a deletion was lost by force so lately that a driver may not know.
    fn was_lost(&self, place: u64) -> bool {
        self.log.lost.get(&place).is_some_and(|at| self.base.tick - at <= LEASE)
    }

    /// A Usage owes a deletion no more; another Usage may have it on record, too.
    fn forget_owed(&mut self, usage: &Uid, uid: &Uid) {
        let mut others = self.outside.usages().filter(|it| it.uid != *usage);
        let known = others.any(|it| {
            it.attempt(uid).is_some_and(|it| !matches!(it.progress, Progress::Withdrawn { .. }))
        });
        if !known {
            self.log.owed.remove(&number(uid));
        }
    }

    /// What must hold once the world is idle.
    pub(crate) fn check_at_rest(&mut self) {
        if let Some((checker, what)) = self.unsettled() {
            self.wrong(checker, what);
        }
        if self.base.tick - self.log.last_write < LEASE {
            let what = format!("something was written at {}", self.log.last_write);
            self.wrong(Checker::QuietAtRest, what);
        }
        if self.plan.teardown && !self.outside.objects.is_empty() {
            let left: Vec<String> =
                self.outside.objects.iter().map(|it| it.key.to_string()).collect();
            self.wrong(EveryWorld::EndsAsWished, format!("left: {}", left.join(", ")));
        }
    }

    /// The first thing that may not stay as it is.
    fn unsettled(&self) -> Option<(Checker, String)> {
        let index = self.live_index();
        let held = |key: &ObjectKey| index.holders(key).count() > 0;
        for object in &self.outside.objects {
            let key = &object.key;
            if object.mark.is_some() && !held(key) {
                return Some((Checker::NothingStays, format!("{key} is marked without a holder")));
            }
            if let Some(usage) = object.usage()
                && let Some(what) = self.stays(object, &usage)
            {
                return Some((Checker::NothingStays, format!("{key} {what}")));
            }
        }
        let owed = self.log.owed.iter().find(|(place, attempt)| {
            let object = self.outside.by_uid(**place);
            let exists = object.is_some_and(|it| it.deleting.is_none());
            exists && !held(&attempt.object)
        });
        let (place, attempt) = owed?;
        let what = format!("the deletion of {} ({place}) was not done", attempt.object);
        Some((Checker::PromiseKept, what))
    }

    /// Why a Usage may not stay as it is.
    fn stays(&self, object: &Object, usage: &Usage) -> Option<&'static str> {
        let users = self.log.users.get(&object.uid);
        let used = users.into_iter().flatten().any(|it| self.exists(*it));
        let spec = usage.spec.as_ref().ok()?;
        if usage.deleting && !used {
            return Some("waits for nothing");
        }
        if spec.resolve == Resolve::Once && users.is_some_and(|it| !it.is_empty()) && !used {
            return Some("has outlived its users");
        }
        match usage.status.phase {
            Phase::Releasing | Phase::Released => return Some("is being released"),
            Phase::Pending | Phase::Protected | Phase::Idle => {}
        }
        // What would use itself is refused, and what was meant before stays.
        let of = named(&spec.of);
        let itself = of.iter().any(|it| usage.users().contains(it) || selects(spec, it));
        if !usage.deleting && !means_what_it_says(usage) && !itself {
            return Some("has a status that differs from its spec");
        }
        // Where the glass is broken nothing is refused any more.
        let protectable = |key: &ObjectKey| {
            let object = self.outside.under(key);
            object.is_some_and(|it| it.deleting.is_none() && it.note.is_none())
        };
        let targets = usage.targets();
        let whole = !targets.is_empty() && targets.iter().all(protectable);
        (usage.status.phase == Phase::Pending && whole).then_some("does not protect")
    }

    /// What is still in progress.
    pub(crate) fn on_its_way(&self) -> Vec<&'static str> {
        let tick = self.base.tick;
        let planned = self.plan.wanted.iter().filter_map(|it| it.delete_at.map(|it| it.0)).max();
        let declared = self.plan.declared.iter();
        let declared = declared.flat_map(|it| [Some(it.at), it.delete_at, it.edit.map(|it| it.0)]);
        let wished = declared.flatten().chain(planned).any(|at| tick <= at + 5);
        // A deletion that is denied again and again is nothing new.
        let unrecorded = |it: &Pending| {
            let usage = self.outside.by_uid(number(&it.usage)).and_then(Object::usage);
            usage.is_none_or(|usage| usage.attempt(&it.attempt.uid).is_none())
        };
        let requests = !self.base.echoes.is_empty()
            || self.pending.iter().any(unrecorded)
            || !self.timers.is_empty()
            || self.replicas.iter().any(|it| !it.coming.is_empty());
        let leaving = self.outside.objects.iter();
        let leaving = leaving.filter(|it| it.deleting.is_some() && it.body.is_none());
        let leaving = leaving.filter(|it| !it.foreground).count() > 0;
        let left = self.plan.teardown && !self.outside.objects.is_empty();
        let mut unfinished = under_way([
            (wished, "a wish"),
            (requests, "a request"),
            (leaving, "a departure"),
            (left, "a deletion to be requested"),
            (!self.outside.changes.is_empty(), "a change"),
        ]);
        if unfinished.is_empty() && self.unsettled().is_some() {
            unfinished.push("something unsettled");
        }
        unfinished
    }
}
