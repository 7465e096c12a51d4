//! Rules broken on purpose, one at a time: a checker that misses one is no checker.
//!
//! Each is a wrapper around `decide`, the World, the Ledger or the plan. The product has no switch
//! for any.

use usher_domain::fleet::accept::Raw;
use usher_domain::fleet::aggregate::{Fields, Machine, State, Target};
use usher_domain::fleet::effect::{Effect, Verb};
use usher_domain::fleet::event::{Event, EventType};
use usher_domain::fleet::facts::{CommandState, Reported};
use usher_domain::fleet::issue::Token;
use usher_domain::fleet::observe::Observed;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::reconciler::MachineReconciler;
use usher_domain::fleet::snapshot::{Listing, Snapshot, Source};
use usher_kernel::{Decision, Record, Timestamp, Unknown, Wake};

use crate::clock::{INTERVAL, millis};
use crate::words::words;

words! {
    /// A rule broken on purpose.
    Breakage {
        /// The binding ends with the transitional answer of a Drain.
        ClearOnTransitional = "clear-on-transitional-answer",
        /// The assignment of what was drained stays with the idle machine.
        KeepAssignment = "keep-assignment-at-idle",
        /// A snapshot from before the last command is believed.
        TrustStale = "trust-stale-look",
        /// A slow list is believed although something newer was seen since it began.
        TrustSlow = "trust-slow-list",
        /// An error of the provider is read as its failure.
        ErrorIsFailed = "error-is-failed",
        /// Victims that are still draining count for no need.
        NoCreditDraining = "no-credit-while-draining",
        /// Machines that are being made count for no need.
        NoCreditCreating = "no-credit-while-creating",
        /// A machine that is missing in a list is gone.
        AbsentIsGone = "absent-from-list-is-gone",
        /// An empty list is believed.
        TrustEmptyList = "trust-empty-list",
        /// The cluster in an answer is not compared with ours.
        AnswerUnchecked = "answer-binding-unchecked",
        /// All surplus is taken back at once.
        CapIgnored = "ignore-reclaim-cap",
        /// What is still draining does not count against the cap.
        ForgetLeaving = "forget-leaving",
        /// Silence of a cluster is read as demand for nothing.
        ReclaimUnheard = "reclaim-before-first-roll-up",
        /// A roll-up that suddenly shrinks is believed at once.
        RollUpUnguarded = "believe-collapsed-roll-up",
        /// After a restart the shard counts its sequences from the beginning, in the same epoch.
        SequenceReused = "reuse-sequence-after-restart",
        /// The machines that resources hold are planned like all others.
        HolderIgnored = "ignore-holder",
        /// What was requested, withdrawn and done all the same is not recognised.
        LateDropped = "drop-late-completion",
        /// A verb is sent with a token that is not recorded yet.
        SendUnrecorded = "send-before-recording",
        /// A crossing emits no event.
        TellNothing = "drop-event",
        /// A crossing emits its event twice.
        TellTwice = "emit-twice",
        /// A commit compares neither version nor lease.
        SkipVersion = "skip-version-check",
        /// What failed is not cleaned up.
        FailedIsFinal = "failed-is-final",
        /// What was forgotten by the provider is waited for, for ever.
        NoRedrive = "never-ask-again",
        /// A plan is acted upon although the fleet is paused.
        PauseIgnored = "ignore-pause",
        /// A shard takes over machines that another shard owns.
        AdoptTwice = "adopt-owned-machine",
        /// A finished drain is noticed only by a question about the machine, which is not asked.
        DropLists = "drop-list-records",
        /// A lease is given while another one runs.
        DoubleLease = "double-lease",
        /// A wake-up during a step is lost.
        LoseWakeUp = "lose-wake-up",
        /// An idle machine is polled again and again.
        PollAtRest = "poll-at-rest",
        /// A victim is aimed at no need, and so counts for none while it is drained.
        ForgetVictims = "forget-victims",
        /// An incomplete snapshot is waited on without a timer.
        WaitOnIncomplete = "wait-on-incomplete",
    }
}

impl Breakage {
    /// Around the World: bends a record before it is read.
    pub fn bend_raw(self, raw: &mut Raw, machine: &Machine) {
        let ours = machine.state().binding().map(|it| it.cluster.to_string());
        if let (Self::AnswerUnchecked, false, Some(ours)) = (self, raw.cluster.is_empty(), ours) {
            raw.cluster = ours;
        }
    }

    /// Around the World: bends what was brought back, before it is judged.
    pub fn bend_snapshot(self, snapshot: &mut Snapshot, machine: &Machine) {
        if self == Self::TrustStale {
            snapshot.stamp = Token { epoch: u64::MAX, sequence: 0 };
        }
        let missing = snapshot.source == Source::List && snapshot.reading == Ok(None);
        if self == Self::AbsentIsGone && missing {
            snapshot.source = Source::Get;
            snapshot.listing = Listing::Lacks;
        }
        if self == Self::TrustEmptyList {
            snapshot.listing = Listing::Lacks;
        }
        let bound = matches!(&snapshot.reading, Ok(Some(Ok(it))) if it.phase().is_bound());
        if self == Self::LateDropped && machine.state().asked().is_some() && bound {
            snapshot.reading = Err(Unknown::Unreachable);
        }
    }

    /// Around `decide`: bends what was decided.
    pub fn bend_decision(
        self,
        decision: &mut Decision<MachineReconciler>,
        record: &Record<Machine>,
        (seen, now): (&Observed, Timestamp),
    ) {
        let machine = &record.state;
        let (before, after) = (machine.phase(), decision.next.phase());
        let (was, is) = (machine.fields().command, decision.next.fields().command);
        let transitional = before == Phase::Draining && seen.facts.report == Reported::Draining;
        let host = machine.state().host().cloned();
        if let (Self::ClearOnTransitional, true, Some(host)) = (self, transitional, host) {
            turn(decision, machine, State::Idle { host, asked: None });
        }
        if self == Self::KeepAssignment && before == Phase::Draining && after == Phase::Idle {
            let asked = machine.state().binding().cloned();
            if let Some(host) = decision.next.state().host().cloned() {
                decision.next = with(&decision.next, |it| it.state = State::Idle { host, asked });
            }
        }
        let ended = matches!(before, Phase::Failed | Phase::Gone);
        if self == Self::ErrorIsFailed && seen.facts.report == Reported::Unknown && !ended {
            let (host, binding) = (machine.state().host(), machine.state().binding());
            let (host, binding) = (host.cloned(), binding.cloned());
            let error = "unavailable".to_owned();
            turn(decision, machine, State::Failed { host, binding, error });
        }
        if self == Self::SequenceReused && decision.next.fields().token != machine.fields().token {
            decision.next = with(&decision.next, |it| it.token = seen.fresh);
        }
        if self == Self::TrustSlow && was == CommandState::None && is == CommandState::None {
            let token = machine.fields().token;
            decision.next = with(&decision.next, |it| it.token = token);
        }
        let records = was != CommandState::Recorded && is == CommandState::Recorded;
        if self == Self::SendUnrecorded && records && decision.event.is_none() {
            decision.effect = verb(&decision.next);
        }
        if self == Self::PollAtRest && decision.wake == Wake::OnChange {
            decision.wake = Wake::At(now.after(millis(INTERVAL)));
        }
        if self == Self::FailedIsFinal && before == Phase::Failed && after == Phase::Failed {
            decision.next = machine.clone();
            decision.effect = None;
            decision.wake = Wake::OnChange;
        }
    }

    /// Around the Ledger: bends what is emitted.
    pub fn bend_event(self, event: Option<Event>) -> Option<Event> {
        event.filter(|_| self != Self::TellNothing)
    }

    /// Around the plan: bends what its index learns of a row.
    pub fn bend_index(self, machine: &Machine) -> Option<Machine> {
        let bound = matches!(machine.wanted().target, Target::Bind(_));
        let made = matches!(machine.phase(), Phase::Creating | Phase::Speculative);
        let leaves = machine.phase() == Phase::Draining;
        let hidden =
            self == Self::NoCreditDraining && leaves || self == Self::NoCreditCreating && made;
        if self == Self::HolderIgnored {
            return Some(with(machine, |it| it.holder = None));
        }
        let out = machine.phase().is_bound() && !bound;
        let forgotten = self == Self::ForgetLeaving && out;
        (!forgotten && (!bound || !hidden)).then(|| machine.clone())
    }
}

/// Turns a decision into a crossing that emits its event.
fn turn(decision: &mut Decision<MachineReconciler>, machine: &Machine, state: State) {
    let cluster = machine.state().binding().map(|it| it.cluster.clone());
    let to = state.phase();
    decision.next = with(machine, |it| {
        it.state = state;
        it.command = CommandState::None;
    });
    decision.effect = None;
    decision.wake = Wake::Now;
    let (kind, from) = (EventType::Moved, machine.phase());
    decision.event = Some(Event { kind, from, to, cluster, error: None });
}

fn with(machine: &Machine, change: impl FnOnce(&mut Fields)) -> Machine {
    let mut fields = machine.fields().clone();
    change(&mut fields);
    Machine::hydrate(fields).unwrap_or_else(|_| machine.clone())
}

fn verb(machine: &Machine) -> Option<Effect> {
    let verb = match machine.phase() {
        Phase::Creating => Verb::Create,
        Phase::Configuring => {
            let binding = machine.state().binding()?;
            let metadata = binding.assignment.encode();
            Verb::Configure { cluster: binding.cluster.clone(), metadata }
        }
        Phase::Draining => Verb::Drain { grace: machine.wanted().grace },
        Phase::Failed => Verb::Salvage,
        Phase::Deleting | Phase::Speculative | Phase::Idle | Phase::Configured | Phase::Gone => {
            Verb::Delete
        }
    };
    Some(Effect { machine: machine.id().clone(), token: machine.fields().token, verb })
}
