//! What an XR composed, tokens and peers: how their answers are judged.

use std::collections::BTreeMap;

use usher_kernel::NameState::{self, Foreign, Gone, Intended, Seen};
use usher_kernel::Row;
use usher_kernel::Unknown::Unreachable;

use super::*;
use crate::broker::facts::GenerationState;
use crate::broker::fixture::{
    G1, G2, NOTHING, START, foreign, gone, intended, leaving, part, peer_id, resource, seen,
    snapshot, xr,
};
use crate::broker::phase::Phase;
use crate::broker::snapshot::PeerState::{Deregistered, Lost, Registered};
use crate::broker::snapshot::{ComposedSnapshot, Peer};

const OPEN: Answer = Answer::Absent { settled: false };
const SETTLED: Answer = Answer::Absent { settled: true };

fn child(state: ComposedState, referred: bool) -> ComposedSnapshot {
    ComposedSnapshot { plural: None, name: part("p", G1), reading: Ok(state), referred }
}

fn state(uid: &str, ours: bool) -> ComposedState {
    ComposedState::Present { uid: Uid::new(uid), ours }
}

/// The result for one composed name, as fact and as rows.
fn folded(it: &Resource, rows: Vec<Row>, snapshot: &Snapshot) -> (Composed, Vec<NameState>) {
    let name_ledger = NameLedger::new(rows);
    let folded = fold(it, &name_ledger, snapshot);
    let of_part = |row: &Row| row.name == part("p", G1);
    let changed = name_ledger.absorb(&folded.sightings).into_iter().filter(of_part);
    (folded.facts.composed, changed.map(|row| row.state).collect())
}

/// A snapshot with one composed name, the XR there or not.
fn with_child(child: ComposedSnapshot, xr_there: bool) -> Snapshot {
    let xr = xr_there.then(|| xr("x", "a", Condition::Ready));
    Snapshot { composed: vec![child], xr: Ok(xr), ..snapshot() }
}

fn recorded(it: &Resource, row: Option<Row>) -> Vec<Row> {
    let mut rows = vec![seen(it.anchor_name(G1), "a"), seen(it.xr_name(G1), "x")];
    rows.extend(row);
    rows
}

// Requirement: L-15, O-18, T-9
#[test]
fn a_composed_object_is_recorded_when_it_exists_or_is_announced() {
    let it = leaving(Phase::Deprovisioning);
    let name = || part("p", G1);
    let absent = |referred| child(ComposedState::Absent, referred);
    let removed = || child(ComposedState::KindRemoved, false);
    let there = |ours| child(state("p", ours), true);
    let cases = [
        (None, there(true), Composed::Unrecorded, vec![Seen], "present and not recorded"),
        (None, absent(true), Composed::Unrecorded, vec![Intended], "announced and not recorded"),
        (None, absent(false), Composed::None, vec![], "neither present nor announced"),
        (None, there(false), Composed::None, vec![], "present and foreign"),
        (None, removed(), Composed::Unrecorded, vec![Intended], "kind removed, not recorded"),
        (Some(seen(name(), "p")), there(true), Composed::Present, vec![], "on record"),
        (Some(seen(name(), "q")), there(true), Composed::Unrecorded, vec![Gone, Seen], "replaced"),
        (Some(seen(name(), "p")), removed(), Composed::KindRemoved, vec![], "its kind removed"),
        (Some(seen(name(), "p")), absent(true), Composed::None, vec![Gone], "gone"),
        (Some(intended(name())), absent(true), Composed::Present, vec![], "still announced"),
        (Some(intended(name())), absent(false), Composed::Present, vec![], "the XR may make it"),
        (Some(intended(name())), there(false), Composed::None, vec![Foreign], "foreign after all"),
        (Some(gone(name(), "p")), absent(true), Composed::None, vec![], "gone and on record"),
        (Some(foreign(name())), there(false), Composed::None, vec![], "foreign and on record"),
    ];
    for (row, child, fact, rows, why) in cases {
        let snapshot = with_child(child, true);
        assert_eq!(folded(&it, recorded(&it, row), &snapshot), (fact, rows), "{why}");
    }
}

// Requirement: T-8
#[test]
fn an_announced_name_is_gone_once_xr_and_grace_are_over() {
    let rows = |it: &Resource| recorded(it, Some(intended(part("p", G1))));
    let absent = |there| with_child(child(ComposedState::Absent, false), there);
    let wanted = resource(|_| ());
    let open = (Composed::Present, vec![]);
    assert_eq!(folded(&wanted, rows(&wanted), &absent(false)), open, "wanted");
    let out = leaving(Phase::Deprovisioning);
    assert_eq!(folded(&out, rows(&out), &absent(true)), open, "the XR may still make it");
    let settled = (Composed::None, vec![NameState::Gone]);
    assert_eq!(folded(&out, rows(&out), &absent(false)), settled, "no XR creates it any more");
    let stranger = Snapshot { xr: Ok(Some(xr("y", "b", Condition::Ready))), ..absent(false) };
    assert_eq!(folded(&out, rows(&out), &stranger), settled, "the XR is foreign");
    let blind = Snapshot { xr: Err(Unreachable), ..absent(false) };
    assert_eq!(folded(&out, rows(&out), &blind), open, "the XR is unknown");
    let loud = resource(|it| {
        it.deletion_requested_at = Some(START);
        it.grace_until = Some(snapshot().at.after(std::time::Duration::from_micros(1)));
    });
    assert_eq!(
        folded(&loud, rows(&loud), &absent(false)),
        open,
        "a request may still be in flight"
    );
}

// Requirement: O-18
#[test]
fn only_composed_names_count_as_composed() {
    let it = resource(|it| it.generation = G2);
    let own = [
        seen(it.anchor_name(G1), "a1"),
        intended(it.anchor_name(G2)),
        seen(it.xr_name(G1), "x1"),
        seen(it.xr_name(G2), "x2"),
        intended(it.token_name(G2)),
        seen(it.peer_name(G2), "n"),
    ];
    assert_eq!(
        fold(&it, &NameLedger::new(own.clone()), &snapshot()).facts.composed,
        Composed::None
    );
    for generation in [G1, G2] {
        let mut rows = own.to_vec();
        rows.push(seen(part("p", generation), "p"));
        assert_eq!(
            fold(&it, &NameLedger::new(rows), &snapshot()).facts.composed,
            Composed::Present
        );
    }
    let mut nested = it.xr_name(G2);
    nested.name = "nested".into();
    let name_ledger = NameLedger::new([seen(nested, "n")]);
    assert_eq!(
        fold(&it, &name_ledger, &snapshot()).facts.composed,
        Composed::Present,
        "a nested XR"
    );
}

// Requirement: O-17
#[test]
fn a_listing_that_failed_hides_nothing_that_is_on_record() {
    let it = leaving(Phase::Deprovisioning);
    let snapshot = Snapshot { composed_listed: Err(Unreachable), ..snapshot() };
    let facts =
        Facts { composed: Composed::Unknown, visibility: Visibility::Unreachable, ..NOTHING };
    assert_eq!(fold(&it, &NameLedger::default(), &snapshot).facts, facts);
}

// Requirement: L-12
#[test]
fn every_state_of_a_token_has_its_fact_and_its_answer() {
    let it = resource(|_| ());
    let out = leaving(Phase::Deregistering);
    let present = Answer::Present { uid: Uid::new(it.token_name(G1).name), ours: true };
    let cases = [
        (&it, None, Token::None, OPEN, "not issued yet"),
        (&it, Some(TokenState::Redeemable), Token::Issued, present, "it can be redeemed"),
        (&it, Some(TokenState::Consumed), Token::Issued, SETTLED, "it was redeemed"),
        (&it, Some(TokenState::Expired), Token::Expired, SETTLED, "it ran out"),
        (&it, Some(TokenState::Revoked), Token::Revoked, SETTLED, "it was revoked"),
        (&out, None, Token::None, SETTLED, "never issued, and never will be"),
        (&out, Some(TokenState::Redeemable), Token::Issued, SETTLED, "not redeemable any more"),
    ];
    for (it, state, fact, answer, why) in cases {
        let snapshot =
            Snapshot { tokens: state.map(|it| (G1, it)).into_iter().collect(), ..snapshot() };
        let folded = fold(it, &NameLedger::new([intended(it.token_name(G1))]), &snapshot);
        assert_eq!(folded.facts.token, fact, "{why}");
        let sighting = Sighting {
            plural: None,
            name: it.token_name(G1),
            answer,
            by: "usher".into(),
            at: snapshot.at,
        };
        assert_eq!(folded.sightings.last(), Some(&sighting), "{why}");
    }
}

#[test]
fn the_current_token_counts_and_every_recorded_one_is_reported() {
    let it = resource(|it| it.generation = G2);
    let tokens = BTreeMap::from([(G1, TokenState::Redeemable), (G2, TokenState::Expired)]);
    let snapshot = Snapshot { tokens, ..snapshot() };
    let name_ledger = NameLedger::new([intended(it.token_name(G1))]);
    let folded = fold(&it, &name_ledger, &snapshot);
    assert_eq!(folded.facts.token, Token::Expired);
    let tokens = folded.sightings.into_iter().filter(|it| it.name.kind == KIND_TOKEN);
    let found: Vec<_> = tokens.map(|it| (it.name.generation, it.answer)).collect();
    assert_eq!(found, vec![(G1, SETTLED)], "only a recorded token; an old one is not added");
}

fn peers(states: &[(Generation, PeerState)]) -> Snapshot {
    let peers = states.iter().map(|(generation, state)| {
        let id = peer_id(u8::try_from(generation.0).unwrap());
        (*generation, Peer { id, state: *state })
    });
    Snapshot { peers: Ok(peers.collect()), ..snapshot() }
}

// Requirement: L-13, O-13
#[test]
fn a_peer_is_present_until_it_is_deregistered() {
    let it = resource(|_| ());
    let present = || Answer::Present { uid: Uid::new(peer_id(1).to_string()), ours: true };
    let cases = [
        (PeerState::Registered, Node::Live, present()),
        (PeerState::Lost, Node::Lost, present()),
        (PeerState::Deregistered, Node::Left, SETTLED),
    ];
    for (state, node, answer) in cases {
        let snapshot = peers(&[(G1, state)]);
        let folded = fold(&it, &NameLedger::default(), &snapshot);
        assert_eq!(folded.facts, Facts { node, ..NOTHING }, "{state:?}");
        let sighting = Sighting {
            plural: None,
            name: it.peer_name(G1),
            answer,
            by: "usher".into(),
            at: snapshot.at,
        };
        assert_eq!(folded.sightings.last(), Some(&sighting), "{state:?}");
    }
}

// Requirement: O-14, T-24
#[test]
fn peers_of_other_generations_count_only_during_teardown() {
    let converging = resource(|it| it.generation = G2);
    let replacing = resource(|it| {
        it.generation = G2;
        it.generation_state = GenerationState::Leaving;
    });
    let cases = [
        (vec![(G1, Registered)], Node::None, Node::Live),
        (vec![(G1, Registered), (G2, Deregistered)], Node::Left, Node::Live),
        (vec![(G1, Lost), (G2, Registered)], Node::Live, Node::Live),
        (vec![(G1, Registered), (G2, Lost)], Node::Lost, Node::Live),
        (vec![(G1, Deregistered), (G2, Lost)], Node::Lost, Node::Lost),
        (vec![(G1, Lost), (G2, Deregistered)], Node::Left, Node::Lost),
        (vec![(G1, Deregistered)], Node::None, Node::Left),
    ];
    for (states, while_converging, while_showing_out) in cases {
        let snapshot = peers(&states);
        let node = |it| fold(it, &NameLedger::default(), &snapshot).facts.node;
        assert_eq!(node(&converging), while_converging, "converging: {states:?}");
        assert_eq!(node(&replacing), while_showing_out, "in teardown: {states:?}");
    }
}
