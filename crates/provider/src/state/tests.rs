//! The rules against reference models, and lists against the machines.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;
use usher_wire::fleet::{CapacityType, HostRef, ListFilter, MachineState, Resources};

use super::*;

fn slot(id: &str) -> Machine {
    Machine {
        id: id.to_owned(),
        state: MachineState::Speculative.into(),
        instance_type: "t".to_owned(),
        zone: "z".to_owned(),
        capacity_type: CapacityType::OnDemand.into(),
        ..Machine::default()
    }
}

fn state_with(slots: usize) -> ProviderState {
    let mut state = ProviderState::new(7);
    for index in 0..slots {
        state.offer(slot(&format!("m{index}")));
    }
    state
}

fn request(machine: &str, token: (&str, i64, i64), verb: Verb) -> TransitionRequest {
    let (shard, epoch, sequence) = token;
    let token = Token { shard: shard.to_owned(), epoch, sequence };
    TransitionRequest { machine: machine.to_owned(), token, verb }
}

fn configure(cluster: &str) -> Verb {
    let metadata = BTreeMap::from([("k".to_owned(), String::new())]);
    Verb::Configure { cluster: cluster.to_owned(), blob: "secret".into(), metadata }
}

fn verb(kind: Kind) -> Verb {
    match kind {
        Kind::Create => Verb::Create,
        Kind::Configure => configure("c"),
        Kind::Drain => Verb::Drain { grace_seconds: 1 },
        Kind::Delete => Verb::Delete,
        Kind::Salvage => Verb::Salvage,
    }
}

const FREE: (&str, i64, i64) = ("", 0, 0);

fn made() -> VerbOutcome {
    let host = HostRef { provider: "p".to_owned(), r#ref: "h".to_owned() };
    // The host has more resources than its offer.
    let resources = BTreeMap::from([("cpu".to_owned(), "4".to_owned())]);
    let known = Some(Resources { resources });
    VerbOutcome::Created { host, resources: known.clone(), allocatable: known }
}

fn drive(state: &mut ProviderState, id: &str, kind: Kind) -> String {
    let accepted = state.decide(&request(id, FREE, verb(kind)), true).result.unwrap();
    let end = if kind == Kind::Create { made() } else { VerbOutcome::Done };
    state.end(id, &accepted.operation, end).unwrap();
    assert_eq!(state.get(id).unwrap().state(), kind.goal());
    accepted.operation
}

// Requirement: PM-7
#[test]
fn a_full_cycle_leaves_nothing_behind_and_ids_are_unique() {
    let mut state = state_with(1);
    let before = state.get("m0").unwrap();
    let mut operations = BTreeSet::new();
    for _ in 0..3 {
        for kind in Kind::PUBLIC {
            assert!(operations.insert(drive(&mut state, "m0", kind)));
        }
        assert_eq!(state.get("m0").unwrap(), before);
    }
}

// Requirement: PM-3
#[test]
fn a_binding_is_visible_from_configure_to_the_end_of_drain() {
    let mut state = state_with(1);
    drive(&mut state, "m0", Kind::Create);
    let accepted = state.decide(&request("m0", FREE, configure("c")), true).result.unwrap();
    assert_eq!(
        (accepted.machine.cluster.as_str(), accepted.machine.shard_metadata.len()),
        ("c", 1)
    );
    let work = accepted.work.unwrap();
    assert_eq!(&work.blob[..], b"secret");
    assert!(!format!("{work:?} {:?}", state.pending()).contains("secret"));
    state.end("m0", &accepted.operation, VerbOutcome::Done).unwrap();
    let accepted = state.decide(&request("m0", FREE, verb(Kind::Drain)), true).result.unwrap();
    assert_eq!(accepted.machine.cluster, "c", "a draining machine is still bound");
    state.end("m0", &accepted.operation, VerbOutcome::Done).unwrap();
    let idle = state.get("m0").unwrap();
    assert_eq!((idle.cluster.as_str(), idle.shard_metadata.len()), ("", 0));
}

// Requirement: PM-7
#[test]
fn every_verb_begins_in_one_state_and_is_idempotent_in_two() {
    for kind in Kind::ALL {
        let mut state = state_with(1);
        let steps: &[Kind] = match kind {
            Kind::Create => &[],
            Kind::Configure | Kind::Delete | Kind::Salvage => &[Kind::Create],
            Kind::Drain => &[Kind::Create, Kind::Configure],
        };
        for step in steps {
            drive(&mut state, "m0", *step);
        }
        if kind == Kind::Salvage {
            let [idle] = state.hosted_machines().try_into().unwrap();
            state.mark_lost(&idle, "the host is gone".to_owned()).unwrap();
        }
        let first = state.decide(&request("m0", FREE, verb(kind)), true).result.unwrap();
        let again = state.decide(&request("m0", FREE, verb(kind)), true);
        assert_eq!(again.entry, None, "a repetition without a token writes nothing");
        let again = again.result.unwrap();
        assert_eq!((&again.operation, again.work), (&first.operation, None));
        for other in Kind::ALL {
            let before = state.get("m0").unwrap();
            let accepted = state.decide(&request("m0", FREE, verb(other)), true).result;
            let repeated = other == kind;
            assert_eq!(accepted.is_ok(), repeated, "{other:?} during {kind:?}");
            assert_eq!(state.get("m0").unwrap(), before);
        }
    }
}

// Requirement: PM-7
#[test]
fn configure_for_another_cluster_is_refused() {
    let mut state = state_with(1);
    drive(&mut state, "m0", Kind::Create);
    drive(&mut state, "m0", Kind::Configure);
    let accepted = state.decide(&request("m0", FREE, configure("other")), true).result;
    assert!(matches!(accepted, Err(Refusal::Bound { .. })), "{accepted:?}");
}

// Requirement: PM-6
#[test]
fn a_fenced_request_reveals_nothing_and_changes_nothing() {
    let mut state = state_with(1);
    let accepted = state.decide(&request("m0", ("s", 2, 1), Verb::Create), true).result.unwrap();
    for (machine, token) in [("m0", ("s", 2, 1)), ("m0", ("s", 1, 9)), ("m0", ("s", 2, 0))] {
        let decision = state.decide(&request(machine, token, Verb::Create), true);
        assert_eq!(decision.entry, None);
        assert_eq!(decision.result, Err(Refusal::Fenced { shard: "s".to_owned() }));
    }
    let known = state.decide(&request("m0", ("s", 3, 0), Verb::Create), true).result.unwrap();
    assert_eq!(known.operation, accepted.operation);
    let nowhere = |state: &mut ProviderState, token| {
        state.decide(&request("none", token, Verb::Create), true).result
    };
    let unknown = Err(Refusal::Unknown { id: "none".to_owned() });
    assert_eq!(nowhere(&mut state, ("s", 1, 1)), unknown, "another machine, another mark");
    assert!(matches!(nowhere(&mut state, ("s", 1, 1)), Err(Refusal::Fenced { .. })));
}

// Requirement: PM-11, PM-17
#[test]
fn a_late_outcome_changes_nothing() {
    let mut state = state_with(1);
    let accepted = state.decide(&request("m0", FREE, Verb::Create), true).result.unwrap();
    state.end("m0", &accepted.operation, VerbOutcome::Failed("too late".to_owned())).unwrap();
    let failed = state.get("m0").unwrap();
    assert_eq!((failed.state(), failed.last_error.as_str()), (MachineState::Failed, "too late"));
    assert_eq!(state.end("m0", &accepted.operation, made()), None);
    assert_eq!(state.get("m0").unwrap(), failed);
    for kind in Kind::PUBLIC {
        let refused = state.decide(&request("m0", FREE, verb(kind)), true).result.unwrap_err();
        assert!(matches!(refused, Refusal::Position { .. }), "{refused:?}");
    }
}

// Requirement: F-76, PM-17
#[test]
fn a_salvaged_machine_is_offered_as_before() {
    let mut state = state_with(1);
    let offered = state.get("m0").unwrap();
    let accepted = state.decide(&request("m0", FREE, Verb::Create), true).result.unwrap();
    state.end("m0", &accepted.operation, VerbOutcome::Failed("no quota".to_owned())).unwrap();
    let given = state.decide(&request("m0", FREE, Verb::Salvage), true).result.unwrap();
    assert_eq!(
        (given.machine.state(), given.machine.last_error.as_str()),
        (MachineState::Deleting, "")
    );
    assert_eq!(given.work.unwrap().made_by.as_ref(), Some(&accepted.operation));
    assert_eq!(state.pending()[0].made_by, Some(accepted.operation), "also after a restart");
    state.end("m0", &given.operation, VerbOutcome::Done).unwrap();
    assert_eq!(state.get("m0").unwrap(), offered);
}

/// Red by: a check that ran while a drain ended and missed the node that the drain removed.
#[test]
fn a_drained_machine_is_not_lost_for_lack_of_a_node() {
    let mut state = state_with(1);
    drive(&mut state, "m0", Kind::Create);
    drive(&mut state, "m0", Kind::Configure);
    let [bound] = state.hosted_machines().try_into().unwrap();
    drive(&mut state, "m0", Kind::Drain);
    assert_eq!(state.mark_lost(&bound, "the node is gone".to_owned()), None);
    let [idle] = state.hosted_machines().try_into().unwrap();
    assert_eq!(idle, HostedMachine { is_bound: false, ..bound });
    assert!(state.mark_lost(&idle, "the host is gone".to_owned()).is_some());
}

// Requirement: PM-12
#[test]
fn a_lost_host_fails_its_machine_once() {
    let mut state = state_with(1);
    drive(&mut state, "m0", Kind::Create);
    drive(&mut state, "m0", Kind::Configure);
    let [hosted] = state.hosted_machines().try_into().unwrap();
    let host = HostRef { r#ref: "other".to_owned(), ..hosted.host.clone() };
    let other = HostedMachine { host, ..hosted.clone() };
    assert_eq!(state.mark_lost(&other, "gone".to_owned()), None, "it has another host");
    let head = state.head;
    assert!(state.mark_lost(&hosted, "gone".to_owned()).is_some());
    assert_eq!(state.mark_lost(&hosted, "gone".to_owned()), None);
    assert_eq!(state.head, head + 1);
    let lost = state.get("m0").unwrap();
    let seen = (lost.state(), lost.last_error.as_str(), lost.cluster.as_str());
    assert_eq!(seen, (MachineState::Failed, "gone", ""));
}

// Requirement: PM-12
#[test]
fn an_unchanged_offer_makes_no_revision() {
    let mut state = state_with(3);
    let head = state.head;
    assert_eq!(state.offer(slot("m1")), None);
    assert_eq!(state.head, head);
    let dearer = Machine { price_per_hour: 2.0, ..slot("m1") };
    assert!(state.offer(dearer).is_some());
    assert_eq!(state.head, head + 1);
}

#[test]
fn oversized_requests_are_refused_without_effect() {
    let mut state = state_with(1);
    drive(&mut state, "m0", Kind::Create);
    let before = state.get("m0").unwrap();
    let large = |blob: usize, value: usize| Verb::Configure {
        cluster: "c".to_owned(),
        blob: vec![0; blob].into(),
        metadata: BTreeMap::from([("k".to_owned(), "v".repeat(value))]),
    };
    for verb in [large(9 << 20, 0), large(0, 3 << 20), configure("")] {
        let accepted = state.decide(&request("m0", FREE, verb), true).result;
        assert!(matches!(accepted, Err(Refusal::Malformed { .. })), "{accepted:?}");
        assert_eq!(state.get("m0").unwrap(), before);
    }
    state.decide(&request("m0", FREE, large(3 << 20, 2 << 20)), true).result.unwrap();
}

fn page(
    state: &mut ProviderState,
    states: &[MachineState],
    most: i32,
    since: &str,
) -> (Vec<String>, String) {
    let states = states.iter().map(|it| i32::from(*it)).collect();
    let since_revision = since.to_owned().into();
    let page = state.list(&ListFilter { states, max_results: most, since_revision });
    let ids = page.records.iter().map(|it| it.id().to_owned()).collect();
    (ids, page.next.to_text(state.nonce()))
}

// Requirement: PM-8
#[test]
fn limited_lists_of_a_state_rotate() {
    let mut state = state_with(5);
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.extend(page(&mut state, &[MachineState::Speculative], 1, "").0);
    }
    assert_eq!(seen, ["m0", "m1", "m2", "m3", "m4", "m0"]);
}

// Requirement: PM-8
#[test]
fn changes_during_paging_come_with_the_last_page() {
    let mut state = state_with(6);
    let (first, next) = page(&mut state, &[], 4, "");
    assert_eq!(first.len(), 4);
    drive(&mut state, "m5", Kind::Create);
    drive(&mut state, "m0", Kind::Create);
    let (second, next) = page(&mut state, &[], 4, &next);
    assert_eq!(second, ["m4"], "a changed machine is not in this list");
    let (third, next) = page(&mut state, &[], 4, &next);
    assert_eq!(third, ["m5", "m0"]);
    assert_eq!(page(&mut state, &[], 4, &next).0, Vec::<String>::new());
}

proptest! {
    // Requirement: PM-8
    #[test]
    fn pages_neither_skip_nor_repeat_a_machine(
        slots in 1_usize..40,
        most in 1_i32..9,
        created in proptest::collection::vec(0_usize..40, 0..20),
        turned in 0_usize..7,
        filtered: bool,
    ) {
        let mut state = state_with(slots);
        for index in created.into_iter().filter(|it| *it < slots).collect::<BTreeSet<_>>() {
            drive(&mut state, &format!("m{index}"), Kind::Create);
        }
        let states: &[MachineState] = if filtered { &[MachineState::Idle] } else { &[] };
        for _ in 0..turned {
            page(&mut state, states, 2, "");
        }
        let all: BTreeSet<String> = page(&mut state, states, 0, "").0.into_iter().collect();
        let (mut seen, mut since) = (Vec::new(), String::new());
        for _ in 0..=slots {
            let (ids, next) = page(&mut state, states, most, &since);
            if ids.is_empty() && !since.is_empty() {
                break;
            }
            seen.extend(ids);
            since = next;
        }
        prop_assert_eq!(seen.len(), all.len(), "{:?}", seen);
        prop_assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), all);
    }

    /// Random requests against a naive fence, and a second state that only reads what the first
    /// one wrote.
    // Requirement: PM-6
    #[test]
    fn written_entries_rebuild_the_same_state(
        steps in proptest::collection::vec(
            (0_usize..4, 0_usize..5, 0_usize..3, -2_i64..4, -3_i64..6, 0_u8..8),
            1..80,
        )
    ) {
        let mut live = state_with(3);
        let mut again = ProviderState::new(7);
        for entry in live.entries().collect::<Vec<_>>() {
            again.apply(entry);
        }
        let mut marks: HashMap<(usize, usize), (i64, i64)> = HashMap::new();
        for (machine, kind, shard, epoch, sequence, ending) in steps {
            let id = format!("m{machine}");
            let it = request(&id, (["a", "b", "c"][shard], epoch, sequence), verb(Kind::ALL[kind]));
            let decision = live.decide(&it, true);
            let mark = marks.get(&(shard, machine));
            let passes = mark.is_none_or(|mark| (epoch, sequence) > *mark);
            let fenced = matches!(decision.result, Err(Refusal::Fenced { .. }));
            prop_assert_eq!(fenced, !passes);
            if passes {
                marks.insert((shard, machine), (epoch, sequence));
            }
            let work = decision.result.ok().and_then(|it| it.work);
            let mut entries: Vec<Entry> = decision.entry.into_iter().collect();
            if let Some(work) = work {
                let end = match (ending, work.kind) {
                    (0, _) => None,
                    (1, _) => Some(VerbOutcome::Failed("x".to_owned())),
                    (_, Kind::Create) => Some(made()),
                    (_, Kind::Configure | Kind::Drain | Kind::Delete | Kind::Salvage) => {
                        Some(VerbOutcome::Done)
                    }
                };
                entries.extend(end.and_then(|end| live.end(&id, &work.operation, end)));
            }
            for entry in entries {
                again.apply(entry);
            }
        }
        let mut copy = ProviderState::new(7);
        for entry in live.entries().collect::<Vec<_>>() {
            copy.apply(entry);
        }
        for other in [&again, &copy] {
            prop_assert_eq!(sorted(other), sorted(&live));
            prop_assert_eq!(&other.by_revision, &live.by_revision);
            prop_assert_eq!(format!("{:?}", other.pending()), format!("{:?}", live.pending()));
        }
    }
}

fn sorted(state: &ProviderState) -> Vec<String> {
    let mut entries: Vec<String> = state.entries().map(|it| format!("{it:?}")).collect();
    entries.sort();
    entries
}
