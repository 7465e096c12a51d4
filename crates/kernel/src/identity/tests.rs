//! Every state against every answer, and the laws over any sequence of answers.

use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1);

fn name() -> Name {
    Name {
        kind: "XR".into(),
        place: "ns".into(),
        name: "pr-1".into(),
        generation: Generation::FIRST,
    }
}

fn row(state: NameState) -> Row {
    let uid = match state {
        NameState::Seen | NameState::Gone => Some(Uid::new("u1")),
        NameState::Intended | NameState::Foreign | NameState::Abandoned => None,
    };
    Row::new(name(), 1, state, uid, Evidence::new("test", "given", NOW))
}

fn sighting(answer: Answer) -> Sighting {
    Sighting { plural: None, name: name(), answer, by: "cluster".into(), at: NOW }
}

fn present(uid: &str, ours: bool) -> Answer {
    Answer::Present { uid: Uid::new(uid), ours }
}

/// A changed row: incarnation, state, uid.
type Changed = (u32, NameState, Option<String>);

fn after(state: NameState, answer: Answer) -> Vec<Changed> {
    NameLedger::new([row(state)])
        .absorb(&[sighting(answer)])
        .into_iter()
        .map(|it| (it.incarnation, it.state, it.uid.map(|uid| uid.0)))
        .collect()
}

// Requirement: L-1, L-2
#[test]
fn every_name_state_absorbs_every_answer() {
    use NameState::{Abandoned, Foreign, Gone, Intended, Seen};
    let u1 = || Some(String::from("u1"));
    let u2 = || Some(String::from("u2"));
    let settled = Answer::Absent { settled: true };
    let open = Answer::Absent { settled: false };
    let cases: Vec<(NameState, Answer, Vec<Changed>)> = vec![
        (Intended, present("u2", true), vec![(1, Seen, u2())]),
        (Intended, present("u2", false), vec![(1, Foreign, None)]),
        (Intended, open.clone(), vec![]),
        (Intended, settled.clone(), vec![(1, Gone, None)]),
        (Seen, present("u1", true), vec![]),
        (Seen, present("u1", false), vec![]),
        (Seen, present("u2", true), vec![(1, Gone, u1()), (2, Seen, u2())]),
        (Seen, present("u2", false), vec![(1, Gone, u1())]),
        (Seen, open.clone(), vec![(1, Gone, u1())]),
        (Seen, settled.clone(), vec![(1, Gone, u1())]),
        (Gone, present("u1", true), vec![(2, Seen, u1())]),
        (Gone, present("u2", true), vec![(2, Seen, u2())]),
        (Gone, present("u2", false), vec![]),
        (Gone, open.clone(), vec![]),
        (Gone, settled.clone(), vec![]),
        (Foreign, present("u2", true), vec![(1, Seen, u2())]),
        (Foreign, present("u2", false), vec![]),
        (Foreign, open.clone(), vec![(1, Intended, None)]),
        (Foreign, settled.clone(), vec![]),
        (Abandoned, present("u2", true), vec![]),
        (Abandoned, present("u2", false), vec![]),
        (Abandoned, open, vec![]),
        (Abandoned, settled, vec![]),
    ];
    for (state, answer, expected) in cases {
        assert_eq!(after(state, answer.clone()), expected, "{state:?} absorbs {answer:?}");
    }
    for state in NameState::ALL {
        assert_eq!(after(state, Answer::Announced), vec![], "{state:?} is known already");
        for why in [Unknown::Unreachable, Unknown::Forbidden, Unknown::ClusterReplaced] {
            assert_eq!(after(state, Answer::Unknown(why)), vec![], "unknown changes nothing");
        }
    }
}

// Requirement: L-15, L-16
#[test]
fn a_new_name_is_recorded_when_it_is_ours_or_announced() {
    let first = |answer| {
        let rows = NameLedger::default().absorb(&[sighting(answer)]);
        rows.first().map(|it| (it.state, it.uid.clone(), it.evidence.answer.clone()))
    };
    let ours = Some((NameState::Seen, Some(Uid::new("u1")), String::from("present and ours")));
    assert_eq!(first(present("u1", true)), ours);
    let announced = Some((NameState::Intended, None, String::from("announced")));
    assert_eq!(first(Answer::Announced), announced);
    assert_eq!(first(present("u1", false)), None);
    assert_eq!(first(Answer::Absent { settled: true }), None);
    assert_eq!(first(Answer::Unknown(Unknown::Forbidden)), None);
}

// Requirement: L-20
#[test]
fn a_ledger_is_settled_when_every_row_is() {
    let settled = |states: &[NameState]| {
        let rows = states.iter().enumerate().map(|(i, it)| {
            let mut row = row(*it);
            row.name.name = format!("pr-{i}");
            row
        });
        NameLedger::new(rows).is_settled()
    };
    assert!(settled(&[]));
    assert!(settled(&[NameState::Gone, NameState::Foreign, NameState::Abandoned]));
    assert!(!settled(&[NameState::Gone, NameState::Intended]));
    assert!(!settled(&[NameState::Seen, NameState::Gone]));
}

// Requirement: L-16, A-16
#[test]
fn abandoning_changes_open_rows_only() {
    let mut seen = row(NameState::Seen);
    seen.name.name = "pr-2".into();
    let name_ledger = NameLedger::new([row(NameState::Gone), seen.clone()]);
    let given_up = name_ledger.abandon("admin", "the cluster burned down", NOW);
    let evidence = Evidence::new("admin", "the cluster burned down", NOW);
    assert_eq!(given_up, vec![Row { state: NameState::Abandoned, evidence, ..seen }]);
    assert!(name_ledger.with(&given_up).is_settled());
}

// Requirement: L-25
#[test]
fn an_abandoned_row_can_be_reaped() {
    let mut unseen = row(NameState::Abandoned);
    unseen.name.name = "pr-2".into();
    let seen = Row { uid: Some(Uid::new("u1")), ..row(NameState::Abandoned) };
    let mut gone = row(NameState::Gone);
    gone.name.name = "pr-3".into();
    let name_ledger = NameLedger::new([seen.clone(), unseen.clone(), gone]);
    let evidence = Evidence::new("admin", "reaped", NOW);
    let taken_back = name_ledger.adopt("admin", "reaped", NOW);
    let expected = vec![
        Row { state: NameState::Seen, evidence: evidence.clone(), ..seen },
        Row { state: NameState::Intended, evidence, ..unseen },
    ];
    assert_eq!(taken_back, expected);
}

// Requirement: L-17
#[test]
fn sightings_of_one_snapshot_build_on_each_other() {
    let name_ledger = NameLedger::new([row(NameState::Intended)]);
    let rows = name_ledger.absorb(&[
        sighting(present("u1", true)),
        sighting(present("u2", true)),
        sighting(Answer::Absent { settled: false }),
    ]);
    let states: Vec<_> = rows.iter().map(|it| (it.incarnation, it.state)).collect();
    assert_eq!(states, vec![(1, NameState::Gone), (2, NameState::Gone)]);
}

// Requirement: L-19
#[test]
fn the_words_are_the_contract() {
    let words = NameState::ALL.map(NameState::as_str);
    assert_eq!(words, ["intended", "seen", "gone", "foreign", "abandoned"]);
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        ("u[1-3]", any::<bool>()).prop_map(|(uid, ours)| present(&uid, ours)),
        any::<bool>().prop_map(|settled| Answer::Absent { settled }),
        Just(Answer::Announced),
        Just(Answer::Unknown(Unknown::Unreachable)),
    ]
}

proptest! {
    // Requirement: L-3, L-4
    #[test]
    fn a_gone_or_abandoned_row_never_changes_again(
        answers in prop::collection::vec(any_answer(), 1..24),
    ) {
        let mut name_ledger = NameLedger::new([row(NameState::Intended)]);
        for answer in answers {
            let before = name_ledger.clone();
            let rows = name_ledger.absorb(&[sighting(answer.clone())]);
            for changed in &rows {
                let old = before
                    .rows()
                    .iter()
                    .find(|it| it.name == changed.name && it.incarnation == changed.incarnation);
                if let Some(old) = old {
                    prop_assert!(
                        !matches!(old.state, NameState::Gone | NameState::Abandoned),
                        "{old:?} changed by {answer:?}"
                    );
                }
                if changed.state == NameState::Gone {
                    prop_assert!(!matches!(answer, Answer::Unknown(_) | Answer::Announced));
                }
            }
            name_ledger = name_ledger.with(&rows);
            let open = name_ledger.rows().iter().filter(|it| !it.state.is_settled()).count();
            prop_assert!(open <= 1, "one name, at most one open row: {name_ledger:?}");
        }
    }

    #[test]
    fn a_compacted_name_ledger_keeps_open_meant_and_few_other_rows(
        rows in prop::collection::vec((0_u8..4, 1_u32..40, 0_usize..5, 0_i64..9), 0..120),
        meant in 0_u8..4,
    ) {
        let rows = rows.into_iter().map(|(number, incarnation, state, at)| Row {
            name: Name { name: format!("pr-{number}"), ..name() },
            incarnation,
            evidence: Evidence::new("test", "given", Timestamp::from_millis(at)),
            ..row(NameState::ALL[state])
        });
        let name_ledger = NameLedger::new(rows);
        let is_meant = |it: &Name| it.name == format!("pr-{meant}");
        let after = name_ledger.compacted(is_meant);
        let needed = |it: &&Row| {
            let is_latest = name_ledger.latest(&it.name) == Some(*it);
            !it.state.is_settled() || (is_meant(&it.name) && is_latest)
        };
        let (all, kept) = (name_ledger.rows().iter(), after.rows().iter());
        prop_assert!(all.clone().filter(needed).eq(kept.clone().filter(needed)));
        let ended: Vec<&Row> = kept.clone().filter(|it| !needed(it)).collect();
        let dropped: Vec<&Row> = all.filter(|it| !after.rows().contains(it)).collect();
        prop_assert!(dropped.is_empty() || ended.len() == SETTLED_KEPT);
        let oldest = ended.iter().map(|it| it.evidence.at).min();
        prop_assert!(dropped.iter().all(|it| Some(it.evidence.at) <= oldest));
        prop_assert_eq!(after.compacted(is_meant), after);
    }
}

/// Red by: a plural that is lost when its row changes, or learned only with another change.
#[test]
fn a_row_keeps_the_plural_of_its_kind() {
    let known = |answer| Sighting { plural: Some("lamps".to_owned()), ..sighting(answer) };
    let announced = NameLedger::default().absorb(&[known(Answer::Announced)]);
    assert_eq!(announced[0].plural.as_deref(), Some("lamps"));

    let intended = NameLedger::new([Row::intended(name(), "usher", NOW)]);
    let learned = intended.absorb(&[known(Answer::Absent { settled: false })]);
    assert_eq!(
        (learned[0].plural.as_deref(), learned[0].state),
        (Some("lamps"), NameState::Intended)
    );
    let ledger = intended.with(&learned);
    assert_eq!(ledger.absorb(&[known(Answer::Absent { settled: false })]), [], "known already");
    let gone = ledger.absorb(&[sighting(Answer::Absent { settled: true })]);
    assert_eq!((gone[0].plural.as_deref(), gone[0].state), (Some("lamps"), NameState::Gone));
    let abandoned = ledger.with(&ledger.abandon("ann", "enough", NOW));
    let adopted = abandoned.adopt("ann", "after all", NOW);
    assert_eq!(adopted[0].plural.as_deref(), Some("lamps"), "abandoned and adopted");

    let unreachable = Answer::Unknown(Unknown::Unreachable);
    assert_eq!(intended.absorb(&[known(unreachable)]), [], "no answer changes nothing");
    let ended = intended.with(&intended.abandon("ann", "enough", NOW));
    assert_eq!(ended.absorb(&[known(Answer::Announced)]), [], "a settled row stays as it is");
}
