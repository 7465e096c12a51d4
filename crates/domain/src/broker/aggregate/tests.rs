//! Every invariant and every change of the row.

use usher_kernel::{Evidence, NameState, Requeue, Uid};
use uuid::Uuid;

use super::*;
use crate::broker::fixture::cluster_wide;
use crate::broker::fixture::{G1, G2, NOW, START, fields, gone, leaving, resource, seen};
use crate::broker::reason::Reason;
use crate::broker::verdict::EventKind;

const EARLIER: Timestamp = Timestamp::from_millis(999);
const LATER: Timestamp = Timestamp::from_millis(2_000);

fn refused(what: &str) -> Result<Resource, Refusal> {
    Err(Refusal::InvalidInput { what: what.to_owned() })
}

fn bent(bend: impl FnOnce(&mut Fields)) -> Fields {
    let mut fields = fields();
    bend(&mut fields);
    fields
}

/// What every row must have: (the field, how it is broken).
fn broken_declarations() -> Vec<(&'static str, Fields)> {
    let nil = Uuid::nil();
    vec![
        ("id", bent(|it| it.id = ResourceId::from_uuid(nil))),
        ("tenancy", bent(|it| it.tenancy = TenancyId::from_uuid(nil))),
        ("project", bent(|it| it.project = ProjectId::from_uuid(nil))),
        ("blueprint_version", bent(|it| it.blueprint_version = BlueprintVersionId::from_uuid(nil))),
        ("credential", bent(|it| it.credential = CredentialId::from_uuid(nil))),
        ("installation", bent(|it| it.pinned.installation = InstallationId::from_uuid(nil))),
        (
            "provider_config",
            bent(|it| it.pinned.provider_config = ProviderConfigId::from_uuid(nil)),
        ),
        ("xr_name", bent(|it| it.pinned.xr_name = String::new())),
        ("xr_name", bent(|it| it.pinned.xr_name = " \t".into())),
        ("name", bent(|it| it.name = String::new())),
        ("name", bent(|it| it.name = "Web 1".into())),
        ("namespace", bent(|it| it.pinned.namespace = "\n".into())),
        ("world", bent(|it| it.pinned.world = String::new())),
        ("created_at", bent(|it| it.created_at = Timestamp::ZERO)),
    ]
}

/// What a declaration would have fixed of a row, and when.
fn declared(fields: &Fields) -> (Declared, Timestamp) {
    let Fields { id, name, tenancy, project, blueprint_version, credential, pinned, .. } =
        fields.clone();
    let declared = Declared { id, name, tenancy, project, blueprint_version, credential, pinned };
    (declared, fields.created_at)
}

// Requirement: A-1, N-7
#[test]
fn both_constructors_refuse_a_broken_field_by_its_name() {
    for (what, fields) in broken_declarations() {
        let (declared, now) = declared(&fields);
        let named = what == "name";
        let refused = if named { Err(Refusal::bad_name(&fields.name)) } else { refused(what) };
        assert_eq!(Resource::declare(declared, now), refused, "declaring without {what}");
        assert_eq!(Resource::hydrate(fields), refused, "reading without {what}");
    }
}

// Requirement: B-27, A-2
#[test]
fn a_contradictory_stored_row_is_refused_by_field_name() {
    let cases = [
        ("updated_at", bent(|it| it.updated_at = EARLIER), "nothing changes before it is declared"),
        ("phase_since", bent(|it| it.phase_since = EARLIER), "no phase begins before that"),
        ("generation", bent(|it| it.generation = Generation(0)), "generations count from one"),
        (
            "deletion_requested_at",
            bent(|it| it.phase = Phase::Deregistering),
            "Deregistering without a deletion request",
        ),
        (
            "deletion_requested_at",
            bent(|it| it.phase = Phase::Deprovisioning),
            "Deprovisioning without a deletion request",
        ),
        (
            "deletion_requested_at",
            bent(|it| {
                it.phase = Phase::Deleted;
                it.outcome = Some(Outcome::Removed);
            }),
            "Deleted without a deletion request",
        ),
        ("outcome", bent(|it| it.outcome = Some(Outcome::Removed)), "an outcome before Deleted"),
        (
            "outcome",
            bent(|it| {
                it.phase = Phase::Deleted;
                it.deletion_requested_at = Some(START);
            }),
            "Deleted without an outcome",
        ),
    ];
    for (what, fields, why) in cases {
        assert_eq!(Resource::hydrate(fields), refused(what), "{why}");
    }
}

// Requirement: O-19, A-3
#[test]
fn a_stored_row_is_read_as_it_was_written() {
    let cases = [
        (fields(), "new"),
        (
            bent(|it| {
                it.generation = G2;
                it.updated_at = LATER;
                it.phase_since = LATER;
                it.phase = Phase::Ready;
                it.generation_state = GenerationState::Live;
                it.substrate_ready_at = Some(LATER);
                it.grace_until = Some(NOW);
            }),
            "moved",
        ),
        (
            bent(|it| it.deletion_requested_at = Some(START)),
            "deletion requested, phase not moved yet",
        ),
        (
            bent(|it| {
                it.phase = Phase::Deleted;
                it.deletion_requested_at = Some(START);
                it.outcome = Some(Outcome::Abandoned);
            }),
            "ended",
        ),
    ];
    for (fields, why) in cases {
        let resource = Resource::hydrate(fields.clone()).unwrap();
        assert_eq!(resource.fields(), &fields, "{why}");
        let text = serde_json::to_string(&fields).unwrap();
        assert_eq!(serde_json::from_str::<Fields>(&text).unwrap(), fields, "{why}");
    }
}

#[test]
fn the_getters_say_what_the_fields_say() {
    let it = resource(|it| {
        it.phase = Phase::Deprovisioning;
        it.generation = G2;
        it.generation_state = GenerationState::Live;
        it.deletion_requested_at = Some(LATER);
    });
    assert_eq!(it.id(), fields().id);
    assert_eq!(it.phase(), Phase::Deprovisioning);
    assert_eq!(it.generation(), G2);
    assert_eq!(it.generation_state(), GenerationState::Live);
    assert_eq!(it.pinned(), &fields().pinned);
    assert_eq!(it.deletion_requested_at(), Some(LATER));
    assert_eq!(resource(|_| ()).deletion_requested_at(), None);
}

// Requirement: A-4
#[test]
fn a_declaration_always_begins_at_the_beginning() {
    let (declared, now) = declared(&fields());
    let declared = Resource::declare(declared, now);
    assert_eq!(declared.unwrap().fields(), &fields());
}

#[test]
fn teardown_begins_with_deletion_or_with_an_old_generation() {
    assert!(!resource(|_| ()).is_tearing_down(), "wanted");
    assert!(!resource(|it| it.phase = Phase::Failed).is_tearing_down(), "failed and kept");
    assert!(
        resource(|it| it.generation_state = GenerationState::Leaving).is_tearing_down(),
        "being replaced"
    );
    let asked = resource(|it| it.deletion_requested_at = Some(START));
    assert!(asked.is_tearing_down(), "requested, phase not moved yet");
    assert!(leaving(Phase::Deregistering).is_tearing_down(), "leaving");
}

// Requirement: E-8
#[test]
fn a_token_is_admitted_into_its_own_generation_while_it_stays() {
    let cases = [
        (resource(|_| ()), G1, true, "the current generation"),
        (resource(|_| ()), G2, false, "a future generation"),
        (resource(|it| it.generation = G2), G1, false, "a generation that passed"),
        (
            resource(|it| it.generation_state = GenerationState::Leaving),
            G1,
            false,
            "a generation being torn down",
        ),
        (leaving(Phase::Deregistering), G1, false, "a resource being torn down"),
    ];
    for (resource, generation, admitted, why) in cases {
        assert_eq!(resource.admits(generation), admitted, "{why}");
    }
}

// Requirement: T-10
#[test]
fn absence_counts_from_the_end_of_the_in_flight_grace_on() {
    let quiet = resource(|it| it.grace_until = Some(LATER));
    assert!(!quiet.is_grace_over(Timestamp::from_micros(LATER.as_micros() - 1)), "just before");
    assert!(quiet.is_grace_over(LATER), "at its end");
    assert!(quiet.is_grace_over(NOW), "after it");
    assert!(resource(|_| ()).is_grace_over(START), "no grace is set");
}

#[test]
fn row_facts_come_from_the_row_and_its_name_ledger() {
    let plain = resource(|_| ());
    let anchor = plain.anchor_name(G1);
    let open = NameLedger::new([seen(anchor.clone(), "a")]);
    let settled = NameLedger::new([gone(anchor, "a")]);
    let wanted = RowFacts {
        phase: Phase::Pending,
        intent: Intent::None,
        generation_state: GenerationState::Fresh,
        role: MeshRole::Node,
        finalization: Finalization::Open,
    };
    assert_eq!(plain.facts(&open, NOW), wanted);
    assert_eq!(
        plain.facts(&settled, NOW),
        RowFacts { finalization: Finalization::Settled, ..wanted }
    );
    let other = resource(|it| {
        it.phase = Phase::Deregistering;
        it.deletion_requested_at = Some(START);
        it.generation_state = GenerationState::Live;
        it.pinned.role = MeshRole::Standalone;
        it.grace_until = Some(NOW.after(std::time::Duration::from_secs(1)));
    });
    let leaving = RowFacts {
        phase: Phase::Deregistering,
        intent: Intent::Requested,
        generation_state: GenerationState::Live,
        role: MeshRole::Standalone,
        finalization: Finalization::InFlight,
    };
    assert_eq!(other.facts(&settled, NOW), leaving, "the grace ends before names settle");
}

// Requirement: A-22
#[test]
fn times_move_only_if_something_else_does() {
    let it = resource(|it| it.phase = Phase::Provisioning);
    let keep = Verdict::wait(Phase::Provisioning, Requeue::Poll, Reason::AsDeclared);
    assert_eq!(it.turned(keep, false, NOW), it, "nothing moved");
    let moved = Verdict::wait(Phase::Enrolling, Requeue::Poll, Reason::AsDeclared);
    let expected = bent(|it| {
        it.phase = Phase::Enrolling;
        it.updated_at = NOW;
        it.phase_since = NOW;
    });
    assert_eq!(it.turned(moved, false, NOW).fields(), &expected, "the phase moved");
    let expected = bent(|it| {
        it.phase = Phase::Provisioning;
        it.generation_state = GenerationState::Live;
        it.updated_at = NOW;
    });
    let turned = it.turned(keep.change_record(RecordChange::To(GenerationState::Live)), false, NOW);
    assert_eq!(turned.fields(), &expected, "the generation state changed and the phase did not");
}

// Requirement: K-17
#[test]
fn a_clock_that_jumped_back_takes_no_time_back() {
    let it = resource(|it| it.updated_at = NOW);
    let moved = Verdict::wait(Phase::Provisioning, Requeue::Poll, Reason::AsDeclared);
    let expected = bent(|it| {
        it.phase = Phase::Provisioning;
        it.updated_at = NOW;
        it.phase_since = NOW;
    });
    assert_eq!(it.turned(moved, false, LATER).fields(), &expected);
}

// Requirement: B-29
#[test]
fn the_substrate_is_first_ready_once_per_generation() {
    let keep = Verdict::wait(Phase::Pending, Requeue::Poll, Reason::AsDeclared);
    let first = resource(|_| ()).turned(keep, true, LATER);
    assert_eq!(first.fields().substrate_ready_at, Some(LATER), "first seen ready");
    assert_eq!(first.turned(keep, true, NOW), first, "ready again");
    assert_eq!(first.turned(keep, false, NOW), first, "not ready any more");
    let next = first.turned(keep.change_record(RecordChange::Next), true, NOW);
    assert_eq!(next.fields().substrate_ready_at, None, "another generation");
}

// Requirement: B-15
#[test]
fn the_next_generation_begins_fresh() {
    let old = resource(|it| {
        it.generation_state = GenerationState::Leaving;
        it.grace_until = Some(LATER);
        it.substrate_ready_at = Some(START);
    });
    let next = Verdict::wait(Phase::Pending, Requeue::Now, Reason::GenerationReplaced);
    let expected = bent(|it| {
        it.generation = G2;
        it.updated_at = NOW;
    });
    assert_eq!(old.turned(next.change_record(RecordChange::Next), false, NOW).fields(), &expected);
}

// Requirement: T-14
#[test]
fn a_row_ends_once_and_keeps_how() {
    let end = Verdict::emit(EventKind::Deleted, Phase::Deleted, Reason::Gone);
    let ended = leaving(Phase::Deprovisioning).turned(end, false, NOW);
    assert_eq!(ended.fields().outcome, Some(Outcome::Removed));
    let given_up = leaving(Phase::Deprovisioning).abandoned(LATER);
    assert_eq!(given_up.turned(end, false, NOW), given_up, "an abandoned row stays abandoned");
}

// Requirement: A-13
#[test]
fn intent_is_recorded_once() {
    let it = resource(|it| it.phase = Phase::Failed);
    let asked = it.retired(Some(NOW), LATER);
    let expected = bent(|it| {
        it.phase = Phase::Deregistering;
        it.deletion_requested_at = Some(LATER);
        it.grace_until = Some(NOW);
        it.updated_at = LATER;
        it.phase_since = LATER;
    });
    assert_eq!(asked.fields(), &expected);
    assert_eq!(asked.retired(None, NOW), asked, "a repeated request changes nothing");
}

// Requirement: T-11
#[test]
fn the_later_end_of_the_in_flight_grace_is_kept() {
    let cases = [
        (None, None, None),
        (Some(LATER), None, Some(LATER)),
        (None, Some(LATER), Some(LATER)),
        (Some(NOW), Some(LATER), Some(NOW)),
        (Some(LATER), Some(NOW), Some(NOW)),
    ];
    for (before, asked, kept) in cases {
        let it = resource(|it| it.grace_until = before);
        assert_eq!(it.retired(asked, LATER).fields().grace_until, kept, "{before:?} {asked:?}");
        assert_eq!(it.replaced(asked, LATER).fields().grace_until, kept, "{before:?} {asked:?}");
    }
}

// Requirement: A-14
#[test]
fn a_replacement_is_begun_once_and_in_pending() {
    let it = resource(|it| {
        it.phase = Phase::Ready;
        it.generation_state = GenerationState::Live;
    });
    let expected = bent(|it| {
        it.generation_state = GenerationState::Leaving;
        it.grace_until = Some(NOW);
        it.updated_at = LATER;
        it.phase_since = LATER;
    });
    let leaving = it.replaced(Some(NOW), LATER);
    assert_eq!(leaving.fields(), &expected);
    assert_eq!(leaving.replaced(None, NOW), leaving, "one is in progress");
}

// Requirement: A-16
#[test]
fn abandon_ends_the_row_and_keeps_an_earlier_intent() {
    let given_up = resource(|_| ()).abandoned(LATER);
    let expected = bent(|it| {
        it.phase = Phase::Deleted;
        it.deletion_requested_at = Some(LATER);
        it.outcome = Some(Outcome::Abandoned);
        it.updated_at = LATER;
        it.phase_since = LATER;
    });
    assert_eq!(given_up.fields(), &expected);
    let asked = leaving(Phase::Deregistering).abandoned(NOW);
    assert_eq!(asked.deletion_requested_at(), Some(START), "intent is written once");
}

// Requirement: N-2
#[test]
fn names_are_derived_and_carry_their_generation() {
    let it = resource(|_| ());
    let id = it.id();
    let token = name::token(id, G2).to_string();
    let name = |kind: &str, place: &str, name: String| Name {
        kind: kind.into(),
        place: place.into(),
        name,
        generation: G2,
    };
    assert_eq!(it.anchor_name(G2), name("Anchor", "ns", format!("pr-{id}-g2")));
    assert_eq!(it.xr_name(G2), name("example.org/XNode", "ns", format!("pr-{id}")));
    assert_eq!(it.token_name(G2), name("Token", "", token.clone()));
    assert_eq!(it.peer_name(G2), name("Peer", "", token));
}

// Requirement: L-5, B-20
#[test]
fn a_node_intends_a_token_and_a_standalone_does_not() {
    let node = resource(|it| it.generation = G2);
    let names = [node.anchor_name(G2), node.xr_name(G2), node.token_name(G2)];
    let row = |name: &Name| Row {
        name: name.clone(),
        plural: (*name == names[1]).then(|| "xnodes".to_owned()),
        incarnation: 1,
        state: NameState::Intended,
        uid: None::<Uid>,
        evidence: Evidence::new("usher", "recorded", NOW),
    };
    assert_eq!(node.intended("usher", NOW), names.iter().map(row).collect::<Vec<_>>());
    let alone = resource(|it| {
        it.generation = G2;
        it.pinned.role = MeshRole::Standalone;
    });
    assert_eq!(alone.intended("usher", NOW), names[..2].iter().map(row).collect::<Vec<_>>());
}

#[test]
fn a_resource_without_a_node_skips_the_drain() {
    let it = resource(|it| it.pinned.role = MeshRole::Standalone).retired(None, NOW);
    assert_eq!(it.phase(), Phase::Deprovisioning);
}

// Requirement: L-22
#[test]
fn a_cluster_scoped_xr_and_its_anchor_have_no_namespace() {
    let it = resource(|it| it.pinned.composite = cluster_wide());
    let anchor = it.anchor_name(G1);
    assert_eq!((anchor.kind.as_str(), anchor.place.as_str()), ("ClusterAnchor", ""));
    assert_eq!(it.xr_name(G1).place, "");
    let it = resource(|_| ());
    let anchor = it.anchor_name(G1);
    assert_eq!((anchor.kind.as_str(), anchor.place.as_str()), ("Anchor", "ns"));
    assert_eq!(it.xr_name(G1).place, "ns");
}
