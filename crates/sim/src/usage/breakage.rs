//! Rules broken on purpose, one at a time: a checker that misses one is no checker.
//!
//! Each is a wrapper around `decide`, the World, the Ledger or admission. The product has no switch
//! for any.

use usher_domain::object::authority::Authority;
use usher_domain::usage::aggregate::{Resolved, Usage};
use usher_domain::usage::attempt::Outcome;
use usher_domain::usage::effect::Effect;
use usher_domain::usage::facts::{By, Excess, Of, Resolution, Resolve};
use usher_domain::usage::observe::Observed;
use usher_domain::usage::phase::Phase;
use usher_domain::usage::reconciler::UsageReconciler;
use usher_domain::usage::reference::Role;
use usher_domain::usage::replay::{self, Age, Holders, Policy};
use usher_domain::usage::selector::Meant;
use usher_domain::usage::snapshot::{Found, Snapshot};
use usher_kernel::{Decision, Record, Visibility};

use crate::words::words;

words! {
    /// A rule broken on purpose.
    Breakage {
        /// A replay is kept in memory only, and lost with a restart.
        ForgottenTimer = "forgotten-timer",
        /// A user with a deletion timestamp counts as gone.
        LeavingIsGone = "leaving-user-is-gone",
        /// A replay matches by name alone.
        ReplayWithoutUid = "replay-without-uid",
        /// A replay is repeated although its object is being deleted.
        ReplayAgain = "replay-again",
        /// Our own verb takes a mark off although others hold, past admission.
        IgnoreOthers = "unmark-beside-others",
        /// A read that failed counts as absent.
        ErrorIsAbsent = "error-is-absent",
        /// A mark counts as a proof.
        ProtectedUnproven = "protected-before-probe",
        /// What an edited declaration meant before is not released.
        IgnoreEdit = "ignore-edit",
        /// What an edited declaration meant before stays marked.
        KeepExcess = "keep-excess",
        /// Objects are marked before the finalizer is on.
        FinalizerLater = "finalizer-after-mark",
        /// A dry run is recorded.
        DryRunRecords = "dry-run-records",
        /// The collector's deletion is done although the owners changed.
        IgnoreOwners = "ignore-owners",
        /// Owners keep waiting for a Usage that waits for them.
        KeepBlocking = "keep-blocking-owners",
        /// What a cache does not know is allowed.
        AllowFromCache = "allow-from-cache",
        /// A denied deletion is forgotten when the use ends.
        ForgetAttempt = "forget-attempt",
        /// A Usage is removed although it owes a deletion.
        LetGoOwing = "let-go-owing",
        /// A denied deletion is not passed on.
        NoHandOver = "no-hand-over",
        /// What has run out is replayed.
        ReplayExpired = "replay-expired",
        /// What was withdrawn is replayed.
        ReplayWithdrawn = "replay-withdrawn",
        /// Stray marks are not reconciled.
        DropStrays = "drop-strays",
        /// An object is marked before its uid is on record.
        MarkUnrecorded = "mark-unrecorded",
        /// Selectors match whatever there is.
        SelectAnything = "select-anything",
        /// Another object under the name of a user is taken for it.
        AdoptOnce = "adopt-with-once",
        /// A Usage being deleted holds nothing.
        LeavingHoldsNothing = "leaving-usage-holds-nothing",
        /// The 404 of a rebuilt cluster is believed.
        TrustRebuilt = "trust-rebuilt-cluster",
        /// A page that is older than the snapshot is believed.
        TrustLagging = "trust-lagging-read",
        /// Too much that vanished at once is believed.
        IgnoreMassDeletionGuard = "ignore-mass-deletion-guard",
        /// A commit or a verb does not compare the version.
        SkipVersion = "skip-version-check",
        /// A Usage that closes a circle holds all the same.
        IgnoreCircle = "ignore-circle",
        /// What cannot be seen is forgotten.
        ForgetTarget = "forget-target",
        /// A declaration that is edited is let in whatever it says.
        EditUnexamined = "edit-unexamined",
        /// An update that takes a mark off is not refused.
        StripUnguarded = "strip-unguarded",
        /// A mark is written again at every snapshot.
        MarkAgain = "mark-again",
        /// The finalizer stays.
        KeepFinalizer = "keep-finalizer",
        /// A lease is given while another one runs.
        DoubleLease = "double-lease",
        /// A wake-up during a step is lost.
        LoseWakeUp = "lose-wake-up",
        /// An incomplete snapshot is waited on without a timer.
        WaitOnIncomplete = "wait-on-incomplete",
    }
}

impl Breakage {
    /// Around the World: bends what was brought back, before it is judged.
    pub fn bend_snapshot(self, record: &Record<Usage>, snapshot: &mut Snapshot) {
        if self == Self::ErrorIsAbsent {
            for it in snapshot.objects.values_mut().filter(|it| it.is_err()) {
                *it = Ok(Found::Absent);
            }
        }
        if self == Self::TrustRebuilt {
            snapshot.authority = Authority::Pinned;
        }
        if self == Self::IgnoreMassDeletionGuard {
            snapshot.guard_tripped = false;
        }
        if self == Self::IgnoreOthers && !record.state.status.phase.holds() {
            snapshot.others = Ok(vec![]);
        }
        if self == Self::IgnoreCircle {
            snapshot.circle = Ok(None);
        }
    }

    /// Around the World: bends what was judged, before it is decided upon.
    pub fn bend_seen(self, record: &Record<Usage>, snapshot: &Snapshot, seen: &mut Observed) {
        let facts = &mut seen.facts;
        if self == Self::LeavingIsGone && facts.by == By::Leaving {
            facts.by = By::Gone;
        }
        if self == Self::ProtectedUnproven && matches!(facts.of, Of::Marked | Of::Allowed) {
            facts.of = Of::Proven;
        }
        if self == Self::IgnoreEdit && record.state.status.of.is_some() {
            facts.resolution = Resolution::Same;
        }
        if self == Self::KeepExcess && record.state.status.phase.holds() {
            facts.excess = Excess::None;
        }
        if self == Self::LetGoOwing && !record.state.status.phase.holds() {
            seen.denied.clear();
        }
        if self == Self::TrustRebuilt && facts.visibility == Visibility::ClusterReplaced {
            facts.visibility = Visibility::Complete;
        }
        if self == Self::MarkUnrecorded && facts.of == Of::Unrecorded {
            let unrecorded =
                record.state.targets().iter().find_map(|key| match snapshot.objects.get(key) {
                    Some(Ok(Found::Present(it))) if it.mark.is_none() => {
                        Some((key.clone(), it.uid.clone()))
                    }
                    Some(_) | None => None,
                });
            if unrecorded.is_some() {
                facts.of = Of::Unmarked;
                seen.unmarked = unrecorded;
            }
        }
        if self == Self::ForgetTarget
            && let Some(of) = &record.state.status.of
        {
            let forgotten = Resolved { from: of.from.clone(), found: vec![] };
            if of == &forgotten {
                facts.resolution = Resolution::Same;
            } else if facts.of == Of::Unknown {
                facts.resolution = Resolution::Changed;
                seen.meant = Some(Meant { of: forgotten, by: record.state.status.by.clone() });
            }
        }
        self.bend_attempt(record, snapshot, seen);
    }

    /// Bends what becomes of a recorded deletion.
    fn bend_attempt(self, record: &Record<Usage>, snapshot: &Snapshot, seen: &mut Observed) {
        let Some((next, verdict)) = replay::next(&seen.denied) else { return };
        let uid = next.uid.clone();
        let object = record.state.attempt(&uid).and_then(|it| snapshot.objects.get(&it.object));
        let existing = match object {
            Some(Ok(Found::Present(it))) if it.uid == uid => Some(it),
            Some(_) | None => None,
        };
        let replays = match verdict.outcome {
            Some(Outcome::Deleted) => self == Self::ReplayAgain && existing.is_some(),
            Some(Outcome::OwnersChanged) => self == Self::IgnoreOwners,
            Some(Outcome::Expired) => self == Self::ReplayExpired,
            Some(Outcome::Withdrawn) => {
                self == Self::ReplayWithdrawn && existing.is_some_and(|it| !it.deleting)
            }
            Some(Outcome::HandedOver | Outcome::NotReplayed) | None => false,
        };
        let Some(denied) = seen.denied.iter_mut().find(|it| it.uid == uid) else { return };
        if replays {
            denied.revision = None;
            denied.facts = replay::Facts {
                progress: replay::Progress::Begun,
                object: replay::Object::Present,
                age: Age::Current,
                holders: Holders::None,
                policy: Policy::On,
            };
        } else if self == Self::ForgetAttempt {
            denied.facts.policy = Policy::Off;
        } else if self == Self::NoHandOver && denied.facts.holders == Holders::Uninformed {
            denied.facts.holders = Holders::Informed;
        }
    }

    /// Around the World and `decide`: bends what was declared.
    pub fn bend_usage(self, usage: &Usage) -> Usage {
        let mut bent = usage.clone();
        if self == Self::AdoptOnce
            && let Ok(spec) = &mut bent.spec
        {
            spec.resolve = Resolve::Always;
        }
        bent
    }

    /// Around `decide`: bends the row that is decided upon.
    pub fn bend_record(self, record: &Record<Usage>, seen: &Observed) -> Record<Usage> {
        let mut bent = record.clone();
        bent.state = self.bend_usage(&record.state);
        let state = &mut bent.state;
        if self == Self::FinalizerLater && seen.facts.of != Of::Proven {
            state.finalizer = true;
        }
        if self == Self::KeepBlocking {
            for owner in &mut state.owners {
                owner.blocks = false;
            }
        }
        bent
    }

    /// Around `decide`: bends what was decided.
    pub fn bend_decision(self, record: &Record<Usage>, decision: &mut Decision<UsageReconciler>) {
        if self == Self::MarkAgain
            && decision.effect.is_none()
            && decision.next.status.phase == Phase::Protected
            && decision.next == record.state
        {
            decision.effect = again(record);
        }
        if self == Self::KeepFinalizer && decision.effect == Some(Effect::RemoveFinalizer) {
            decision.effect = None;
        }
    }
}

/// The mark of the first target, once more.
fn again(record: &Record<Usage>) -> Option<Effect> {
    let object = record.state.targets().first()?.clone();
    let uid = record.name_ledger.seen(&Role::Mark.name(&object))?.uid.clone()?;
    Some(Effect::Mark { object, uid, mark: record.state.mark().to_owned() })
}
