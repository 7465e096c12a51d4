//! The deletion matrix: every combination of what can be true when a direct resource is deleted.
//!
//! Order x record x dependency x answer of the cloud x policy x crash. Each cell is a small world
//! that starts so; transient answers heal; the same checkers hold as in every run, and a foreign
//! object survives.

use std::cell::RefCell;

use usher_domain::direct::aggregate::{Fields, History, Resource};
use usher_domain::direct::identity::Identified;
use usher_domain::direct::mark::{Binding, Mark, RequestId};
use usher_domain::direct::operation::Progress;
use usher_domain::direct::phase::Phase;
use usher_domain::direct::proof::Outcome;
use usher_domain::direct::reference::{Named, Read, Reference};
use usher_domain::direct::verdict::EffectKind;
use usher_domain::object::name::FINALIZER_DIRECT;
use usher_kernel::{NameLedger, NameState, Row, Timestamp, Uid};

use crate::base::{Course, Wrong};
use crate::clock::{GIVE_UP, Tick};
use crate::direct::breakage::Breakage;
use crate::direct::cloud::{CloudObject, Running, Work, cloud_uid};
use crate::direct::model::Spec;
use crate::direct::outside::{stamp, uid};
use crate::direct::people::parent_name;
use crate::direct::plan::PAIRS;
use crate::direct::state::{NAMESPACE, State, Stubborn, Wanted, credential, installation};
use crate::fault::Mix;
use crate::injected_fault::InjectedFault;
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::sim_world::SimWorld as _;
use crate::words::{Words as _, words};

/// When transient answers heal.
const HEALED: Tick = 150;
/// When a dependency that changes last enters its state.
const LATER: Tick = 25;
/// The member of the cell.
const MEMBER: &str = "m";

words! {
    /// When the dependency enters its state.
    Order {
        /// Before deletion is requested.
        First = "dependencies first",
        /// After it.
        Last = "dependencies last",
        /// Somewhere in between.
        Random = "dependencies at random",
    }
}

words! {
    /// What is on record.
    Recorded {
        /// Nothing, and nothing was ever sent.
        None = "none",
        /// Nothing: ledger and stamp are lost.
        Lost = "lost",
        /// A name that was perhaps used.
        Intended = "intended",
        /// A cloud object that was seen.
        Seen = "seen",
        /// A cloud object that was seen and is gone now.
        Gone = "gone",
        /// A stamp that cannot be read.
        Malformed = "malformed",
        /// The stamp of another object.
        Elsewhere = "bound elsewhere",
        /// Nothing was ever sent, and a stamp of its own names the cloud object of another.
        Forged = "forged",
        /// Nothing: ledger and stamp are lost, and the stamp names the cloud object of another.
        ForgedLost = "lost and forged",
    }
}

words! {
    /// The parent.
    Dependency {
        /// It is there.
        Ready = "ready",
        /// It is not there.
        Absent = "absent",
        /// It is being deleted.
        Terminating = "terminating",
        /// It has no identity.
        NotReady = "not ready",
        /// It may not be read.
        Forbidden = "forbidden",
        /// Its kind is not installed.
        KindNotInstalled = "kind not installed",
        /// It cannot be read.
        Unavailable = "unavailable",
    }
}

words! {
    /// What the cloud says.
    Answer {
        /// Our cloud object exists.
        Ours = "present ours",
        /// No cloud object exists.
        Absent = "absent",
        /// Another owner's cloud object has the name.
        Foreign = "foreign under the name",
        /// Ours exists, and cannot be read for a while.
        Forbidden = "403",
        /// Ours exists, and we are asked to wait.
        Throttled = "429",
        /// Ours exists, and the cloud fails for a while.
        Failing = "5xx",
        /// The container is gone.
        ContainerGone = "container gone",
        /// Ours is being made.
        Running = "operation running",
        /// Ours is being made, which fails.
        Fails = "operation fails",
    }
}

impl Recorded {
    /// Whether the cloud object under the name is another owner's.
    fn is_another(self) -> bool {
        matches!(self, Self::Elsewhere | Self::Forged | Self::ForgedLost)
    }

    /// Whether the object was ours before the ledger knew it.
    fn is_lost(self) -> bool {
        matches!(self, Self::Lost | Self::Malformed | Self::Elsewhere | Self::ForgedLost)
    }
}

impl Answer {
    /// The status of every answer during the fault phase, unless it depends on what exists.
    fn status(self) -> Option<u16> {
        match self {
            Self::Forbidden => Some(403),
            Self::Throttled => Some(429),
            Self::Failing => Some(503),
            Self::Ours
            | Self::Absent
            | Self::Foreign
            | Self::ContainerGone
            | Self::Running
            | Self::Fails => None,
        }
    }
}

/// The deletion policies.
pub const POLICIES: [&str; 3] = ["hold", "release-with-record", "abandon"];

/// Where a driver dies or stalls: a verb of the table and the fault injected on it.
pub const CRASHES: [Option<(EffectKind, InjectedFault)>; 7] = [
    None,
    Some((EffectKind::Delete, InjectedFault::CrashBefore)),
    Some((EffectKind::Delete, InjectedFault::CrashAfter)),
    Some((EffectKind::Delete, InjectedFault::LateDriver)),
    Some((EffectKind::RemoveFinalizer, InjectedFault::CrashBefore)),
    Some((EffectKind::RemoveFinalizer, InjectedFault::CrashAfter)),
    Some((EffectKind::RemoveFinalizer, InjectedFault::LateDriver)),
];

/// One combination.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// When the dependency enters its state.
    pub order: Order,
    /// What is on record.
    pub recorded: Recorded,
    /// The parent.
    pub dependency: Dependency,
    /// What the cloud says.
    pub answer: Answer,
    /// The deletion policy.
    pub policy: &'static str,
    /// Where a driver dies.
    pub crash: Option<(EffectKind, InjectedFault)>,
}

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With this outcome, at this moment.
    Ended(Outcome, Tick),
    /// Not as it should.
    Wrong(Wrong),
}

impl Cell {
    /// Every combination that can occur: who never sent anything has nothing in the cloud.
    pub fn all() -> impl Iterator<Item = Self> {
        Order::ALL.iter().flat_map(|order| {
            Recorded::ALL.iter().flat_map(move |recorded| {
                Dependency::ALL.iter().flat_map(move |dependency| {
                    Answer::ALL.iter().flat_map(move |answer| {
                        POLICIES.into_iter().flat_map(move |policy| {
                            CRASHES.into_iter().map(move |crash| Self {
                                order: *order,
                                recorded: *recorded,
                                dependency: *dependency,
                                answer: *answer,
                                policy,
                                crash,
                            })
                        })
                    })
                })
            })
        })
    }

    /// Runs the cell to its end.
    pub fn run_seed(&self, breakage: Option<Breakage>) -> End {
        let world = RefCell::new(self.world(breakage));
        let object = world.borrow().store.resources[0].object;
        let mut stage = Scenario::new(&world);
        let mut ended = None;
        for tick in 0..GIVE_UP {
            if tick == self.comes_at() {
                self.depend(&mut world.borrow_mut());
            }
            stage.turn(tick);
            if ended.is_none() && world.borrow().is_gone(object) {
                ended = Some(tick);
            }
            if stage.is_over() {
                break;
            }
        }
        stage.close();
        self.end(&world.borrow(), ended)
    }

    /// How the cell ended.
    fn end(&self, state: &State, ended: Option<Tick>) -> End {
        let survives = |uid: u64| state.outside.cloud.objects.iter().any(|it| it.uid == uid);
        if let Some(wrong) = &state.base().wrong {
            return End::Wrong(wrong.clone());
        }
        if !self.foreign().is_none_or(survives) {
            return End::Wrong(missed("another owner's cloud object is gone"));
        }
        match (state.outcome(), ended) {
            (Some(outcome), Some(tick)) => self.judge(outcome, tick),
            (None, _) | (_, None) => End::Wrong(missed("its object never went")),
        }
    }

    /// The number of another owner's cloud object under the name, beside the neighbours.
    fn foreign(&self) -> Option<u64> {
        let exists = self.answer == Answer::Ours || self.answer.status().is_some();
        if self.answer == Answer::Foreign {
            return Some(OURS + 1);
        }
        (self.recorded.is_another() && exists).then_some(OURS)
    }

    /// When the dependency enters its state; before the first tick if it changes first.
    fn comes_at(&self) -> Tick {
        match self.order {
            Order::First => -1,
            Order::Last => LATER,
            Order::Random => i64::try_from(self.seed() % 25).unwrap_or(0),
        }
    }

    /// A number that is this cell's own.
    fn seed(&self) -> u64 {
        let places = [
            self.order.index(),
            self.recorded.index(),
            self.dependency.index(),
            self.answer.index(),
            POLICIES.iter().position(|it| *it == self.policy).unwrap_or(0),
            CRASHES.iter().position(|it| *it == self.crash).unwrap_or(0),
        ];
        places.into_iter().fold(1, |seed, it| seed * 11 + it as u64)
    }

    fn world(&self, breakage: Option<Breakage>) -> State {
        let pair = self.crash.and_then(|(effect, injected)| {
            let place = PAIRS.iter().position(|it| *it == (Phase::Deleting, effect))?;
            Some((place, injected))
        });
        let target = pair.unwrap_or((usize::MAX, InjectedFault::CrashBefore));
        let course = Course { drivers: 2, mix: Mix::default(), target, faults_end: HEALED };
        let mut state = State::empty(Rng::new(self.seed()), course, false);
        state.base.breakage = breakage;
        state.populate();
        let parent = Named { namespace: NAMESPACE.to_owned(), name: parent_name(0) };
        let object = state.add(Wanted {
            name: "object".to_owned(),
            spec: Spec {
                parent: Reference::Named(parent),
                config: None,
                member: MEMBER.to_owned(),
                wanted: 1,
            },
            policy: Some(self.policy.to_owned()),
        });
        self.record(&mut state, object);
        self.furnish(&mut state, object);
        if self.order == Order::First {
            self.depend(&mut state);
        }
        state.ask_to_go(object);
        state
    }

    /// Writes what is on record into ledger and object.
    fn record(&self, state: &mut State, object: u64) {
        let row = &mut state.store.resources[0];
        let mut fields: Fields = row.record.state.fields().clone();
        let identified = identified();
        let named = matches!(self.recorded, Recorded::Intended | Recorded::Seen | Recorded::Gone);
        fields.identity = named.then(|| identified.clone());
        if self.recorded.is_lost() {
            fields.history = History::Lost;
        }
        if let Ok(known) = Resource::hydrate(fields) {
            row.record.state = known;
        }
        let existing = match self.recorded {
            Recorded::Intended => Some((NameState::Intended, None)),
            Recorded::Seen => Some((NameState::Seen, Some(cloud_uid(OURS)))),
            Recorded::Gone => Some((NameState::Gone, Some(cloud_uid(OURS - 1)))),
            Recorded::None
            | Recorded::Lost
            | Recorded::Malformed
            | Recorded::Elsewhere
            | Recorded::Forged
            | Recorded::ForgedLost => None,
        };
        let row_of = |(state, uid)| {
            let name = row.record.state.name_of(&identified);
            Row { state, uid, ..Row::intended(name, "matrix", Timestamp::from_millis(1)) }
        };
        row.record.name_ledger = NameLedger::new(existing.map(row_of));
        let own = row.record.state.recorded(&row.record.name_ledger).map(|it| it.to_text());
        let stamp = match self.recorded {
            Recorded::Malformed => Some("{".to_owned()),
            Recorded::Elsewhere => Some(stamp_of_another()),
            Recorded::Forged | Recorded::ForgedLost => Some(stamp(&uid(object), &anothers())),
            Recorded::None
            | Recorded::Lost
            | Recorded::Intended
            | Recorded::Seen
            | Recorded::Gone => own,
        };
        state.outside.change(object, 0, |it| {
            it.finalizers.push(FINALIZER_DIRECT.to_owned());
            it.stamp = stamp;
        });
        if self.recorded == Recorded::Elsewhere {
            state.copies.push(object);
        }
    }

    /// Puts the cell's objects into the cloud.
    fn furnish(&self, state: &mut State, object: u64) {
        let mark = state.store.resources[0].record.state.mark();
        let copy = self.recorded.is_another();
        // What the stamp of another names, or a forged one, is the other's.
        let (mark, made_by) = if copy { (mark_of_another(), None) } else { (mark, Some(object)) };
        let ours = CloudObject { mark: Some(mark), made_by, ..anothers() };
        let exists = (self.recorded != Recorded::None).then(|| ours.clone());
        let cloud = &mut state.outside.cloud;
        match self.answer {
            Answer::Ours => cloud.extend(exists),
            Answer::Absent => {}
            Answer::Foreign => cloud.put(CloudObject { uid: OURS + 1, ..anothers() }),
            Answer::Forbidden | Answer::Throttled | Answer::Failing => {
                cloud.extend(exists);
                state.stubborn = Stubborn { status: self.answer.status(), read: None };
            }
            Answer::ContainerGone => cloud.delete_container("projects/p0"),
            Answer::Running | Answer::Fails => {
                // What was seen is there while it is worked on; the rest is only being made.
                let seen = self.recorded == Recorded::Seen;
                let work = if seen { Work::Settle } else { Work::Create(ours.clone()) };
                if seen {
                    cloud.put(ours);
                }
                if self.recorded != Recorded::None && !copy {
                    cloud.operations.push(Running {
                        name: 1,
                        identity: identified().identity.as_str().to_owned(),
                        work,
                        ends_at: 70,
                        fails: self.answer == Answer::Fails,
                        progress: Progress::Running,
                    });
                }
            }
        }
    }

    /// Brings the parent into its state.
    fn depend(&self, state: &mut State) {
        let tick = state.base().tick;
        let name = parent_name(0);
        let parent = state.outside.parents.iter_mut().find(|it| it.name == name);
        match (self.dependency, parent) {
            (Dependency::Ready, _) | (_, None) => {}
            (Dependency::Absent, _) => state.outside.parents.retain(|it| it.name != name),
            (Dependency::Terminating, Some(it)) => it.gone_at = Some(HEALED + 20),
            (Dependency::NotReady, Some(it)) => it.unready_until = HEALED,
            (Dependency::Forbidden, _) => state.stubborn.read = Some(Read::Forbidden),
            (Dependency::KindNotInstalled, _) => state.outside.kind_missing_until = HEALED,
            (Dependency::Unavailable, _) => state.stubborn.read = Some(Read::Unavailable),
        }
        state.outside.touch_parent(&name, tick);
    }

    /// Whether this is how the cell should end: what the policy, the record and the cloud say, and
    /// never the dependency where an identity is on record.
    fn judge(&self, outcome: Outcome, tick: Tick) -> End {
        let ours = self.answer == Answer::Ours || self.answer.status().is_some();
        let exists = ours || self.answer == Answer::Foreign;
        let expected = match (self.policy, self.recorded, self.answer) {
            ("abandon", _, _) => Some(Outcome::Abandoned),
            (_, Recorded::ForgedLost, _) if exists => Some(Outcome::NotOurs),
            (_, Recorded::Elsewhere | Recorded::Forged, _) => Some(Outcome::NotOurs),
            (_, Recorded::None | Recorded::ForgedLost, _) => Some(Outcome::AlreadyAbsent),
            (_, _, _) if ours => Some(Outcome::Deleted),
            // What people decide in the end, where nothing of ours exists, is the world's to say.
            (_, Recorded::Lost | Recorded::Malformed, _) => None,
            (_, Recorded::Intended, Answer::Foreign) => Some(Outcome::NotOurs),
            (_, _, Answer::Absent | Answer::Foreign | Answer::ContainerGone) => {
                Some(Outcome::AlreadyAbsent)
            }
            (_, Recorded::Seen, _) | (_, _, Answer::Running) => Some(Outcome::Deleted),
            (_, _, _) => Some(Outcome::AlreadyAbsent),
        };
        let known = matches!(self.recorded, Recorded::Intended | Recorded::Seen | Recorded::Gone);
        let prompt = known && self.answer == Answer::Ours && self.crash.is_none();
        if expected.is_some_and(|it| it != outcome) {
            return End::Wrong(missed(&format!("it ended {outcome} and not {expected:?}")));
        }
        if (prompt || self.policy == "abandon" && self.crash.is_none()) && tick >= HEALED {
            return End::Wrong(missed("it waited for what it did not need"));
        }
        End::Ended(outcome, tick)
    }
}

impl State {
    /// How the first object's record ended.
    fn outcome(&self) -> Option<Outcome> {
        self.store.resources.first().and_then(|it| it.record.state.fields().outcome)
    }
}

/// The number of our cloud object.
const OURS: u64 = 100;

fn missed(what: &str) -> Wrong {
    Wrong { checker: "matrix", what: what.to_owned() }
}

fn identified() -> Identified {
    let identity = format!("projects/p0/memberships/{MEMBER}")
        .parse()
        .unwrap_or_else(|_| unreachable!("a fixed and valid value"));
    Identified { credential: credential(), identity }
}

/// A cloud object under the cell's name that none of our records made.
fn anothers() -> CloudObject {
    CloudObject {
        identity: identified().identity.as_str().to_owned(),
        uid: OURS,
        etag: 1,
        mark: None,
        is: 1,
        made_by: None,
        created: -1,
        leaving: false,
    }
}

fn another() -> Binding {
    Binding { installation: installation(), object: Uid::new("k-999") }
}

fn mark_of_another() -> Mark {
    let owner = another();
    Mark { request: RequestId::of(&owner, 1), owner }
}

/// The stamp of the object that this one is a copy of.
fn stamp_of_another() -> String {
    stamp(&another().object, &anothers())
}
