//! What holds of any snapshot of any machine, whatever the rules say.

use proptest::prelude::*;
use proptest::sample::select;
use usher_kernel::{Decision, Lifecycle, NameLedger, Record, Timestamp, Unknown, Version};

use super::accept::{Raw, Report};
use super::aggregate::{Machine, State, Target, Wanted};
use super::effect::{Effect, Verb};
use super::event::EventType;
use super::facts::CommandState;
use super::fixture::{FRESH, LAST, NOW, START, binding, dispute, host, raw, resource, state};
use super::issue::Token;
use super::observe::fold;
use super::phase::Phase;
use super::reconciler::MachineReconciler;
use super::refusal::Refusal;
use super::snapshot::{Listing, Snapshot, Source};

fn any_target() -> impl Strategy<Value = Target> {
    let bind = select(vec!["a", "b"]).prop_map(|it| Target::Bind(binding(it)));
    prop_oneof![2 => bind, 1 => Just(Target::Unbound), 1 => Just(Target::Release)]
}

fn any_machine() -> impl Strategy<Value = Machine> {
    let asked = prop::option::of(select(vec!["a", "b"]));
    let phase = (select(Phase::ALL.to_vec()), select(vec!["a", "b"]), asked);
    let command =
        (select(CommandState::ALL.to_vec()), any::<bool>(), prop::option::weighted(0.2, Just("x")));
    let times = select(vec![START, NOW, Timestamp::from_millis(90_000)]);
    (phase, any_target(), command, times).prop_map(|(phase, target, command, since)| {
        let (phase, bound, asked) = phase;
        super::fixture::machine(|it| {
            it.state = match state(phase) {
                State::Idle { host, .. } => State::Idle { host, asked: asked.map(binding) },
                State::Deleting { host, .. } => State::Deleting { host, asked: asked.map(binding) },
                State::Configuring { host, .. } => {
                    State::Configuring { host, binding: binding(bound) }
                }
                State::Configured { host, .. } => {
                    State::Configured { host, binding: binding(bound) }
                }
                State::Draining { host, .. } => State::Draining { host, binding: binding(bound) },
                State::Failed { error, .. } => {
                    State::Failed { host: Some(host()), binding: asked.map(binding), error }
                }
                other @ (State::Speculative | State::Creating | State::Gone) => other,
            };
            it.wanted = Wanted::of(target);
            let ordered = phase.is_passing() || phase == Phase::Failed;
            it.command = if ordered { command.0 } else { CommandState::None };
            it.holder = command.1.then(|| resource(1));
            it.disputed = command.2.map(dispute);
            it.phase_since = since;
        })
    })
}

fn any_report() -> impl Strategy<Value = Report> {
    let phases: Vec<Phase> = Phase::ALL.iter().filter(|it| **it != Phase::Gone).copied().collect();
    (select(phases), select(vec!["a", "b", "c"]), any::<bool>()).prop_map(|(phase, name, dear)| {
        let mut raw = raw(phase);
        if !raw.cluster.is_empty() {
            name.clone_into(&mut raw.cluster);
        }
        raw.price_per_hour = if dear { 9.0 } else { 0.5 };
        Report::read(&raw).unwrap()
    })
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let refused = Refusal::Quantity("x".to_owned());
    let other = Report::read(&Raw { id: "m2".to_owned(), ..raw(Phase::Idle) }).unwrap();
    let reading = prop_oneof![
        12 => any_report().prop_map(|it| Ok(Some(Ok(it)))),
        2 => Just(Ok(None)),
        1 => Just(Ok(Some(Err(refused)))),
        1 => Just(Ok(Some(Ok(other)))),
        2 => Just(Err(Unknown::Unreachable)),
    ];
    let source = select(vec![Source::Acknowledgement, Source::Get, Source::List]);
    let early = Token { sequence: LAST.sequence - 1, ..LAST };
    let stamp = select(vec![early, LAST, LAST, LAST, FRESH]);
    let listing = select(vec![Listing::Lacks, Listing::Lacks, Listing::Names, Listing::Distrusted]);
    let rare = || prop::bool::weighted(0.1);
    (reading, source, stamp, (listing, rare(), rare()), select(vec![LAST, FRESH])).prop_map(
        |(reading, source, stamp, (listing, paused, superseded), fresh)| Snapshot {
            by: "p".to_owned(),
            at: NOW,
            source,
            stamp,
            reading,
            listing,
            paused,
            superseded,
            fresh,
        },
    )
}

fn decide(machine: &Machine, snapshot: &Snapshot) -> Decision<MachineReconciler> {
    let name_ledger = NameLedger::new([machine.intended(START)]);
    let record = Record { version: Version(1), state: machine.clone(), name_ledger };
    MachineReconciler::default().decide(&record, &fold(machine, snapshot), NOW)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_same_record_and_snapshot_give_the_same_decision(
        it in any_machine(),
        snapshot in any_snapshot(),
    ) {
        let (one, other) = (decide(&it, &snapshot), decide(&it, &snapshot));
        prop_assert_eq!((one.next, one.effect, one.event), (other.next, other.effect, other.event));
    }

    // Requirement: F-41
    #[test]
    fn a_decision_makes_a_row_that_may_be_stored(it in any_machine(), snapshot in any_snapshot()) {
        let decision = decide(&it, &snapshot);
        let next = decision.next;
        prop_assert!(decision.effect.is_none() || decision.event.is_none());
        prop_assert_eq!(Machine::hydrate(next.fields().clone()), Ok(next.clone()));
        prop_assert!(next.fields().token >= it.fields().token, "tokens only grow");
        prop_assert_eq!(next.wanted(), it.wanted(), "only a plan or a person aims");
        prop_assert_eq!(next.fields().holder, it.fields().holder);
        prop_assert!(next.fields().phase_since >= it.fields().phase_since);
        prop_assert_eq!(it.phase() == Phase::Gone && next != it, false, "Gone is for good");
    }

    // Requirement: F-35
    #[test]
    fn every_phase_change_has_one_event_and_nothing_else_has(
        it in any_machine(),
        snapshot in any_snapshot(),
    ) {
        let decision = decide(&it, &snapshot);
        let moved = decision.next.phase() != it.phase();
        let disputed = decision.next.fields().disputed.is_some() != it.fields().disputed.is_some();
        let found = decision.event.as_ref().map(|event| event.kind);
        match found {
            None => prop_assert!(!moved && !disputed),
            Some(EventType::Moved) => prop_assert!(moved && decision.next.phase() != Phase::Gone),
            Some(EventType::Gone) => prop_assert!(decision.next.phase() == Phase::Gone),
            Some(EventType::Disputed | EventType::Settled) => prop_assert!(disputed && !moved),
        }
        if let Some(event) = decision.event {
            prop_assert_eq!((event.from, event.to), (it.phase(), decision.next.phase()));
        }
    }

    // Requirement: F-7
    #[test]
    fn a_verb_carries_a_token_that_was_recorded_before(
        it in any_machine(),
        snapshot in any_snapshot(),
    ) {
        if let Some(Effect { machine, token, verb }) = decide(&it, &snapshot).effect {
            prop_assert_eq!(&machine, it.id());
            let recorded = (it.fields().token, CommandState::Recorded);
            prop_assert_eq!((token, it.fields().command), recorded);
            let shown = snapshot.reading.ok().flatten().and_then(Result::ok).map(|it| it.phase());
            if let (Verb::Configure { cluster, .. }, Some(Phase::Idle)) = (verb, shown) {
                prop_assert_eq!(Some(&cluster), it.wanted().cluster(), "none is bound unwanted");
            }
        }
    }

    // Requirement: F-4
    #[test]
    fn a_binding_ends_only_where_the_provider_shows_none(
        it in any_machine(),
        snapshot in any_snapshot(),
    ) {
        let next = decide(&it, &snapshot).next;
        let lost = it.state().binding().is_some() && next.state().binding().is_none();
        if lost {
            let shown = snapshot.reading.as_ref().ok().and_then(|it| it.as_ref()?.as_ref().ok());
            let unbound = shown.is_none_or(|it| !it.phase().is_bound());
            prop_assert!(unbound, "{:?} became {:?}", it.phase(), next.phase());
            prop_assert!(!next.phase().is_bound());
        }
        let assigned = next.state().binding().is_some();
        prop_assert!(!assigned || next.phase().is_bound() || next.phase() == Phase::Failed);
    }

    // Requirement: F-8
    #[test]
    fn a_stale_snapshot_changes_nothing(it in any_machine(), snapshot in any_snapshot()) {
        let is_get = snapshot.source == Source::Get;
        let recorded = it.fields().command == CommandState::Recorded && is_get;
        if snapshot.stamp < it.fields().token && !recorded {
            let decision = decide(&it, &snapshot);
            prop_assert_eq!(decision.next, it);
            prop_assert!(decision.effect.is_none() && decision.rows.is_empty());
        }
    }

    /// A machine with an unchanging provider becomes idle, or repeats its command only once per
    /// deadline.
    // Requirement: F-36
    #[test]
    fn an_unchanging_world_is_soon_known(it in any_machine(), report in any_report()) {
        let reported = super::fixture::snapshot(Some(report));
        let snapshot = Snapshot { stamp: FRESH, fresh: FRESH, ..reported };
        let mut row = it;
        let mut verbs = 0;
        for _ in 0..12 {
            let stamp = row.fields().token.max(FRESH);
            let decision = decide(&row, &Snapshot { stamp, ..snapshot.clone() });
            verbs += u32::from(decision.effect.is_some());
            if decision.wake != usher_kernel::Wake::Now {
                return Ok(());
            }
            row = decision.next;
        }
        prop_assert!(false, "{verbs} verbs and not idle: {row:?}");
    }
}
