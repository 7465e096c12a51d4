//! What must never happen, by name.

use usher_domain::direct::aggregate::Resource;
use usher_domain::direct::effect::Effect;
use usher_domain::direct::event::EventType;
use usher_domain::direct::facts::{
    Cloud, Ended, Facts, Hold, Identity, Object as ObjectFact, Policy, Refs, RowFacts, Search,
    Stamp,
};
use usher_domain::direct::operation::Progress;
use usher_domain::direct::phase::Phase;
use usher_domain::direct::proof::Outcome;
use usher_domain::direct::reason::Reason;
use usher_kernel::{NameState, Record};

use crate::clock::Tick;
use crate::direct::cloud::{CloudObject, Work, cloud_uid, container};
use crate::direct::execute::Request;
use crate::direct::outside::{Object, uid};
use crate::direct::state::State;
use crate::sim_world::{EveryWorld, SimWorld as _};
use crate::words::words;

words! {
    /// What the direct world is held to.
    Checker {
        /// Every cloud object of ours is named by a row, an orphan record or its object.
        // Requirement: I-17
        Named = "named",
        /// A foreign cloud object is never touched.
        // Requirement: I-12, I-13, I-28, I-37
        ForeignUntouched = "foreign-untouched",
        /// An end by absence means that nothing of ours exists or is in flight.
        // Requirement: I-9, I-10, I-22
        ReleaseMeansGone = "release-means-gone",
        /// Nothing ends by absence on an answer that does not count.
        // Requirement: I-8, I-16, I-38
        KnownRelease = "known-release",
        /// An orphan is released only by its policy, and only if its identity is not known.
        // Requirement: I-15, I-17
        OrphanByPolicy = "orphan-by-policy",
        /// An identity is on record and on the object before it is used.
        // Requirement: I-3
        NameBeforeUse = "name-before-use",
        /// Nothing is created for an object that does not carry our finalizer.
        // Requirement: I-30
        FinalizerFirst = "finalizer-first",
        /// One object never has two cloud objects.
        // Requirement: I-21, I-29
        OneObject = "one-object",
        /// A copy never acts on the cloud.
        // Requirement: I-4
        CopyNeverActs = "copy-never-acts",
        /// An abandoned object waits for nothing.
        // Requirement: I-7
        AbandonAsksNothing = "abandon-asks-nothing",
        /// A record with a recorded identity never waits for a reference to be deleted.
        // Requirement: I-2
        Parentless = "parentless",
        /// What is held is not touched.
        // Requirement: I-7
        HoldHonoured = "hold-honoured",
        /// Nothing is deleted whose policy says otherwise.
        // Requirement: I-7, I-18
        PolicyHonoured = "policy-honoured",
        /// Every crossing has one event, and none is emitted twice.
        // Requirement: I-32
        OneEventPerCrossing = "one-event-per-crossing",
        /// Deletion is never taken back, and an end never changes.
        // Requirement: I-32
        Sticky = "sticky",
        /// Once the world is idle, nothing of a finished record exists, unless a record names it.
        // Requirement: I-24, I-28
        NoResidue = "no-residue",
        /// When idle, nothing is due.
        // Requirement: I-33
        QuietAtRest = "quiet-at-rest",
        /// Nothing is created after an end by absence by a driver that is in time.
        // Requirement: I-9
        InFlightGrace = "in-flight-grace",
        /// No row reports gone what exists.
        // Requirement: I-8, I-14
        GoneMeansGone = "gone-means-gone",
    }
}

impl State {
    /// Whether a record is finished.
    pub(crate) fn is_over(&self, index: usize) -> bool {
        self.store.resources[index].record.state.phase() == Phase::Deleted
    }

    /// What every request must respect.
    pub(crate) fn check_request(&mut self, request: &Request) {
        let row = &self.store.resources[request.row];
        let Effect::Create { identified, .. } = &request.verb else {
            return;
        };
        let name = identified.identity.as_str();
        let recorded = row.record.name_ledger.rows().iter().any(|it| it.name.name == name);
        let outcome = row.record.state.fields().outcome;
        if !recorded || request.facts.stamp != Stamp::Current {
            let what = format!("{name} is created and not on record");
            self.wrong(Checker::NameBeforeUse, what);
        } else if request.facts.object != ObjectFact::Held {
            let what = format!("{name} is created for an object without our finalizer");
            self.wrong(Checker::FinalizerFirst, what);
        } else if outcome.is_some_and(|it| !it.needs_record()) && self.now() < request.deadline {
            self.wrong(Checker::InFlightGrace, format!("{name} is created after its end"));
        }
    }

    /// What another owner made is not touched.
    pub(crate) fn check_touch(&mut self, object: u64, found: &CloudObject, done: &str) {
        if found.made_by != Some(object) {
            let what = format!("{} of {:?} was {done} by {object}", found.identity, found.made_by);
            self.wrong(Checker::ForeignUntouched, what);
        }
    }

    /// After a create: never two at once.
    pub(crate) fn check_single(&mut self, object: u64) {
        let cloud = &self.outside.cloud;
        let existing = cloud.objects.iter().filter(|it| it.made_by == Some(object)).count();
        if existing + self.being_made(object, Tick::MAX) > 1 {
            self.wrong(Checker::OneObject, format!("{object} has two cloud objects"));
        }
    }

    /// How many cloud objects of an object are being made, asked for before this moment.
    fn being_made(&self, object: u64, before: Tick) -> usize {
        let running = self.outside.cloud.operations.iter();
        let running = running.filter(|it| it.progress == Progress::Running && !it.fails);
        running
            .filter(|it| match &it.work {
                Work::Create(made) => made.made_by == Some(object) && made.created < before,
                Work::Settle | Work::Delete(_) => false,
            })
            .count()
    }

    /// What every decision must respect, by what an honest snapshot saw.
    pub(crate) fn check_decision(
        &mut self,
        index: usize,
        (row, seen): (RowFacts, Facts),
        (acts, ended, reason): (bool, Option<Outcome>, Reason),
    ) {
        let leaving = row.phase == Phase::Deleting && seen.object == ObjectFact::Leaving;
        if !leaving || row.ended == Ended::Yes {
            return;
        }
        let object = self.store.resources[index].object;
        if seen.hold == Hold::Another {
            if acts {
                self.wrong(Checker::HoldHonoured, format!("{object} is held and torn down"));
            }
            return;
        }
        if seen.policy == Policy::Abandon && ended != Some(Outcome::Abandoned) {
            let what = format!("{object} is abandoned and waits ({reason})");
            self.wrong(Checker::AbandonAsksNothing, what);
        }
        // Only where the record is lost may the spec say what it was.
        let lost = matches!(row.identity, Identity::Lost | Identity::Found | Identity::Malformed);
        if !lost && reason.as_str().starts_with("Reference") {
            let what = format!("{object} waits for a reference to go ({reason})");
            self.wrong(Checker::Parentless, what);
        }
    }

    /// What every commit of a driver must respect.
    pub(crate) fn check_commit(
        &mut self,
        index: usize,
        before: &Record<Resource>,
        (honest, observed_at): (Option<(RowFacts, Facts)>, Tick),
    ) {
        self.check_transition_event(index, before);
        let row = self.store.resources[index].clone();
        let (was, is) = (before.state.fields(), row.record.state.fields());
        let back = before.state.is_leaving() && !row.record.state.is_leaving()
            || was.phase == Phase::Deleted && is.phase != Phase::Deleted;
        if back || (was.outcome.is_some() && was.outcome != is.outcome) {
            let what = format!("{} went from {} to {}", row.object, was.phase, is.phase);
            self.wrong(Checker::Sticky, what);
        }
        for turned in row.record.name_ledger.rows() {
            let known = before.name_ledger.latest(&turned.name).map(|it| it.state);
            let newly = turned.state == NameState::Gone && known != Some(NameState::Gone);
            let mut cloud = self.outside.cloud.objects.iter();
            let exists = cloud.find(|it| turned.uid == Some(cloud_uid(it.uid)));
            if newly && exists.is_some_and(|it| it.created < observed_at) {
                let what = format!("{} is reported gone and exists", turned.name.name);
                self.wrong(Checker::GoneMeansGone, what);
            }
        }
        let over = was.phase != Phase::Deleted && is.phase == Phase::Deleted;
        if over && self.outside.object(row.object).is_some_and(Object::is_held) {
            let what = format!("{} is reported gone and exists with our finalizer", row.object);
            self.wrong(Checker::KnownRelease, what);
        }
        let copy = honest.is_some_and(|(row, _)| row.identity == Identity::BoundElsewhere);
        if copy && !row.record.name_ledger.rows().is_empty() && before.name_ledger.rows().is_empty()
        {
            let what = format!("{} takes over what another's stamp names", row.object);
            self.wrong(Checker::CopyNeverActs, what);
        }
        if let (None, Some(outcome), Some(honest)) = (was.outcome, is.outcome, honest) {
            self.check_end_of(row.object, outcome, honest, observed_at);
        }
    }

    /// What every end must rest on.
    fn check_end_of(
        &mut self,
        object: u64,
        outcome: Outcome,
        (row, seen): (RowFacts, Facts),
        observed_at: Tick,
    ) {
        let out_of_hands = matches!(seen.object, ObjectFact::Free | ObjectFact::Gone);
        match outcome {
            Outcome::Deleted | Outcome::AlreadyAbsent => {
                let absent = matches!(seen.cloud, Cloud::Absent | Cloud::ContainerGone);
                let answered = match row.identity {
                    Identity::None => true,
                    Identity::Gone => absent || seen.cloud == Cloud::Foreign,
                    Identity::Lost
                    | Identity::Found
                    | Identity::Malformed
                    | Identity::Intended
                    | Identity::Seen
                    | Identity::Foreign
                    | Identity::BoundElsewhere
                    | Identity::Abandoned => false,
                };
                let mut cloud = self.outside.cloud.objects.iter();
                let mine = |it: &&CloudObject| it.made_by == Some(object);
                let exists = cloud.any(|it| mine(&it) && it.created < observed_at);
                if exists || self.being_made(object, observed_at) > 0 {
                    let what = format!("{object} ends {outcome} and its cloud object exists");
                    self.wrong(Checker::ReleaseMeansGone, what);
                }
                if !answered {
                    let what = format!("{object} ends {outcome} and no record says so");
                    self.wrong(Checker::KnownRelease, what);
                }
            }
            Outcome::OrphanReleased => {
                let unsaid = matches!(seen.refs, Refs::NotFound | Refs::Invalid);
                let nameless = match seen.search {
                    Search::None => unsaid,
                    Search::Several => true,
                    Search::One | Search::Unknown => false,
                };
                let by_policy = seen.policy == Policy::Release && nameless;
                if !out_of_hands && !by_policy {
                    let what = format!("{object} is released as an orphan");
                    self.wrong(Checker::OrphanByPolicy, what);
                }
            }
            Outcome::Abandoned | Outcome::NotOurs => {}
        }
    }

    /// What a write must emit: its crossing at its version, and nothing else.
    fn check_transition_event(&mut self, index: usize, before: &Record<Resource>) {
        let record = &self.store.resources[index].record;
        let (was, is) = (before.state.phase(), record.state.phase());
        let owed = match is {
            Phase::Ready if was != is => Some(EventType::Ready),
            Phase::Deleting if was != is => Some(EventType::Deleting),
            Phase::Deleted if was != is => Some(EventType::Deleted),
            Phase::Pending | Phase::Creating | Phase::Ready | Phase::Deleting | Phase::Deleted => {
                None
            }
        };
        let version = record.version;
        let mine = self.store.events.iter().rev().take(4);
        let mine = mine.filter(|it| it.resource == index && it.version == version);
        let emitted: Vec<EventType> = mine.map(|it| it.event.event_type()).collect();
        if emitted != owed.into_iter().collect::<Vec<_>>() {
            let what = format!("row {index} owes {owed:?} and emits {emitted:?}");
            self.wrong(Checker::OneEventPerCrossing, what);
        }
    }

    /// At every moment: every cloud object of ours is named somewhere.
    pub(crate) fn check_named(&mut self) {
        let nameless = self.outside.cloud.objects.iter().find(|it| {
            let Some(object) = it.made_by else {
                return false;
            };
            let held = self.outside.object(object).is_some_and(Object::is_held);
            !held && !self.is_on_record(it, object)
        });
        if let Some(it) = nameless {
            let what = format!("{} of {:?} exists and nothing names it", it.identity, it.made_by);
            self.wrong(Checker::Named, what);
        }
    }

    /// Whether a row that no restore has lost names a cloud object, or an orphan record its owner.
    fn is_on_record(&self, it: &CloudObject, object: u64) -> bool {
        let owner = uid(object);
        self.store.resources.iter().filter(|row| row.entry.is_some()).any(|row| {
            let fields = row.record.state.fields();
            let orphan = fields.orphan.as_ref().is_some_and(|it| it.owner().object == owner);
            let named =
                row.record.name_ledger.rows().iter().any(|row| row.name.name == it.identity);
            let open = fields.phase != Phase::Deleted;
            orphan || (row.object == object && (named || open))
        })
    }

    /// What must hold once the world is idle.
    pub(crate) fn check_at_rest(&mut self) {
        for index in 0..self.store.resources.len() {
            if let Some(what) = self.unfinished(index) {
                let object = self.store.resources[index].object;
                self.wrong(EveryWorld::EndsAsWished, format!("{object}: {what}"));
            }
            self.check_due(index);
            for event_type in [EventType::Accepted, EventType::Deleting, EventType::Deleted] {
                if self.store.event_count(index, event_type) > 1 {
                    let what = format!("row {index} emitted {event_type} twice");
                    self.wrong(Checker::OneEventPerCrossing, what);
                }
            }
        }
        for it in self.outside.cloud.objects.clone() {
            let Some(object) = it.made_by else { continue };
            if self.outside.object(object).is_none() && !self.is_left_behind(object) {
                let what = format!("{} outlives {object}", it.identity);
                self.wrong(Checker::NoResidue, what);
            }
        }
        let cloud = &self.outside.cloud;
        let missing = self.neighbours.iter().any(|(uid, container)| {
            cloud.containers.contains(container) && !cloud.objects.iter().any(|it| it.uid == *uid)
        });
        if missing {
            self.wrong(Checker::ForeignUntouched, "a neighbour is gone".to_owned());
        }
    }

    /// Whether an orphan record of an object says that something may be left.
    fn is_left_behind(&self, object: u64) -> bool {
        let mine = self.store.resources.iter();
        let mut mine = mine.filter(|it| it.object == object && it.entry.is_some());
        mine.any(|it| it.record.state.fields().orphan.is_some())
    }

    /// A record that is as wished, or over, is not observed again.
    fn check_due(&mut self, index: usize) {
        let row = &self.store.resources[index];
        let steady = row.reason == Some(Reason::AsDeclared);
        // A restored object whose identity is lost stays unknown to the cloud, so it is polled.
        let unknown = matches!(
            row.reason,
            Some(
                Reason::DeletionTimestampLost
                    | Reason::OperationStatusUnknown
                    | Reason::ObjectUnreadable
            )
        );
        let over = row.record.state.phase() == Phase::Deleted && !unknown;
        let due = row.entry.as_ref().and_then(|it| it.due);
        if (steady || over) && due.is_some() {
            let what = format!("{} is due although it is idle", row.object);
            self.wrong(Checker::QuietAtRest, what);
        }
    }

    /// What a row still lacks.
    pub(crate) fn unfinished(&self, index: usize) -> Option<String> {
        let row = &self.store.resources[index];
        row.entry.as_ref()?;
        let fields = row.record.state.fields();
        if fields.phase == Phase::Deleted {
            let watched = fields.watch_until.is_some_and(|until| self.now() < until);
            let back = row.record.name_ledger.rows().iter().any(|it| it.state == NameState::Seen);
            let reported = row.reason == Some(Reason::DeletionTimestampLost);
            let object = self.outside.object(row.object);
            return match object {
                _ if watched || back => Some("it is watched".to_owned()),
                Some(it) if it.deleting && it.is_held() => {
                    Some("its object is back and is not let go".to_owned())
                }
                Some(it) if !it.deleting && !reported => {
                    Some("its object reappeared and no reason says so".to_owned())
                }
                Some(_) | None => None,
            };
        }
        let Some(object) = self.outside.object(row.object) else {
            return Some("its object is gone and the row does not say so".to_owned());
        };
        if object.deleting {
            return Some(format!("it is being torn down ({:?})", row.reason));
        }
        if self.rests_rightly(index) {
            return None;
        }
        Some(format!("it is {} ({:?})", fields.phase, row.reason))
    }

    /// Whether a declared row is idle for a reason that is true.
    fn rests_rightly(&self, index: usize) -> bool {
        let row = &self.store.resources[index];
        let Some(object) = self.outside.object(row.object) else {
            return false;
        };
        let identity = row.record.state.identity().map(|it| it.identity.as_str().to_owned());
        let existing = identity.as_deref().and_then(|it| self.outside.cloud.find(it));
        let lies_in = |it: &str| self.outside.cloud.containers.contains(&container(it));
        match row.reason {
            Some(Reason::AsDeclared) => existing
                .is_some_and(|it| it.made_by == Some(row.object) && it.is == object.spec.wanted),
            Some(Reason::NameTakenByAnother) => {
                existing.is_some_and(|it| it.made_by != Some(row.object))
            }
            Some(Reason::ParentGone) => identity.is_some_and(|it| !lies_in(&it)),
            Some(Reason::ReferenceNotFound) => self.has_lost_a_parent(object),
            Some(Reason::IdentityChanged) => identity != self.stands_for(row.object),
            Some(Reason::IdentityForeign) => {
                self.copies.contains(&row.object) || self.forged.contains(&row.object)
            }
            Some(Reason::IdentityMalformed) => true,
            Some(_) | None => false,
        }
    }

    fn has_lost_a_parent(&self, object: &Object) -> bool {
        use usher_domain::direct::reference::{Read, Reference};
        let references = [Some(&object.spec.parent), object.spec.config.as_ref()];
        references.into_iter().flatten().any(|it| match it {
            Reference::Named(named) => self.outside.read(named, self.base.tick) == Read::Absent,
            Reference::External(_) => false,
        })
    }

    /// Drops the row of a finished record, as a careless store would.
    pub(crate) fn forget_ended(&mut self, index: usize) {
        if self.is_over(index) {
            self.store.resources[index].entry = None;
        }
    }
}
