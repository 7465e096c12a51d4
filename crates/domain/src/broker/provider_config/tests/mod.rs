//! The row, and the judgement of a snapshot.

mod decisions;
mod fixture;

use std::time::Duration;

use usher_kernel::Unknown::{ClusterReplaced, Forbidden, Unreachable};
use usher_kernel::{
    Answer, Decision, Evidence, Lifecycle, NameLedger, NameState, Record, Sighting, Uid, Version,
    Visibility, Wake,
};

use super::*;
use crate::broker::facts::{Anchor, Gate};
use crate::broker::fixture::{G1, G2, NOW, foreign, gone, intended, seen};
use crate::broker::render::{self, anchor::is_anchor};
use crate::broker::snapshot::Reading;
use crate::object::authority::Authority;
use fixture::{bent, config, found, object, out};

const NOTHING: Facts = Facts {
    visibility: Visibility::Complete,
    gate: Gate::Ready,
    anchor: Anchor::Absent,
    object: Object::Absent,
};

fn present(uid: &str, ours: bool) -> Answer {
    Answer::Present { uid: Uid::new(uid), ours }
}

/// The answers about the ProviderConfig, by generation.
fn answers(
    config: &ProviderConfig,
    name_ledger: &NameLedger,
    snapshot: &Snapshot,
) -> Vec<(Generation, Answer)> {
    let kind = config.config_name(G1).kind;
    let sightings = fold(config, name_ledger, snapshot).sightings.into_iter();
    let wanted = sightings.filter(|it| it.name.kind == kind);
    wanted.map(|it| (it.name.generation, it.answer)).collect()
}

// Requirement: L-21, N-2
#[test]
fn names_are_derived_and_recorded_before_they_are_used() {
    let it = config(|it| it.generation = G2);
    let name = |kind: &str, name: String| Name {
        kind: kind.into(),
        place: "ns".into(),
        name,
        generation: G2,
    };
    let names = [
        name("Anchor", format!("pc-{}-g2", it.id)),
        name("local.crossplane.io/ProviderConfig", format!("pc-{}", it.id)),
        name("external-secrets.io/ExternalSecret", format!("cloud-credentials-{}", it.id)),
    ];
    let written = [it.anchor_name(G2), it.config_name(G2), it.external_secret_name(G2)];
    assert_eq!(written, names);
    assert_eq!(it.secret_name(G2), name("Secret", format!("cloud-credentials-{}", it.id)));
    let row = |name| Row {
        plural: None,
        name,
        incarnation: 1,
        state: NameState::Intended,
        uid: None,
        evidence: Evidence::new("usher", "recorded", NOW),
    };
    assert_eq!(it.intended("usher", NOW), names.map(row), "the Secret is not made by us");
}

// Requirement: N-5, P-12
#[test]
fn what_is_recorded_is_what_is_rendered_whatever_the_scope() {
    for provider in Provider::ALL {
        let it = config(|it| it.provider = provider);
        let rendered = render::ProviderConfig {
            id: it.id,
            generation: G1,
            labels: render::OwnerLabels::of_provider_config(it.id, it.installation),
            provider,
            namespace: &it.namespace,
            endpoint: &serde_json::Map::new(),
            credential: &it.coordinates,
            anchor: &Uid::new("a"),
        };
        let scope = provider.config_type().scope;
        let anchor = it.anchor_name(G1);
        let manifests = [
            (anchor.clone(), anchor::anchor(rendered.labels, &anchor.name, scope, &it.namespace)),
            (it.config_name(G1), render::provider_config(&rendered, None)),
            (it.external_secret_name(G1), render::external_secret(&rendered, "store", None)),
        ];
        for (name, manifest) in manifests {
            let value = manifest.as_value();
            let group = value["apiVersion"].as_str().unwrap().split('/').next().unwrap();
            let kind = manifest.kind().to_owned();
            let kind = if is_anchor(&name) { kind } else { format!("{group}/{kind}") };
            let place = manifest.namespace().unwrap_or_default().to_owned();
            let said = Name { kind, place, name: manifest.name().to_owned(), generation: G1 };
            assert_eq!(name, said, "{provider}");
        }
        let target = render::external_secret(&rendered, "store", None);
        let target = &target.as_value()["spec"]["target"]["name"];
        assert_eq!(it.secret_name(G1).name, *target, "{provider}");
        assert_eq!(it.secret_name(G1).place, "ns", "{provider}");
    }
}

/// The in-flight grace ends in ten seconds.
fn outstanding() -> Outstanding {
    Outstanding { may_act_until: Some(NOW), request_bound: Duration::from_secs(10) }
}

fn grace_end() -> Timestamp {
    NOW.after(Duration::from_secs(10))
}

// Requirement: P-2
#[test]
fn users_are_counted_and_never_below_none() {
    let with = |users| config(|it| it.users = users);
    let parted = |it: ProviderConfig| it.parted(&outstanding(), NOW).users;
    assert_eq!(with(1).joined(), with(2));
    assert_eq!(parted(with(2)), 1);
    assert_eq!(parted(with(1)), 0);
    assert_eq!(parted(with(0)), 0, "reported deleted twice");
    assert_eq!(with(u32::MAX).joined(), with(u32::MAX));
}

// Requirement: P-14
#[test]
fn only_the_first_and_the_last_user_wake_the_worker() {
    let with = |users| config(|it| it.users = users);
    for (before, after, news) in
        [(0, 0, false), (0, 1, true), (1, 2, false), (2, 1, false), (1, 0, true)]
    {
        assert_eq!(with(after).is_news_to(&with(before)), news, "{before} to {after}");
    }
}

// Requirement: P-11
#[test]
fn the_in_flight_grace_begins_when_the_last_user_is_removed() {
    let with = |users, grace_until| {
        config(|it| {
            it.users = users;
            it.grace_until = grace_until;
        })
    };
    let later = Some(grace_end().after(Duration::from_secs(1)));
    let parted = |it: &ProviderConfig| it.parted(&outstanding(), NOW);
    assert_eq!(parted(&with(2, None)), with(1, None), "another resource uses it");
    assert_eq!(parted(&with(1, None)), with(0, Some(grace_end())));
    assert_eq!(parted(&with(1, later)), with(0, later), "never shortened");
    assert_eq!(parted(&with(0, None)), with(0, None), "the grace began earlier");
    let released = Outstanding { may_act_until: None, ..outstanding() };
    assert_eq!(with(1, None).parted(&released, NOW), with(0, None), "no lease is held");
    let leaving = out(G1).joined();
    assert_eq!(parted(&leaving), out(G1), "in teardown no worker creates anything");
    assert_eq!(with(0, later).with_grace(&outstanding(), NOW), with(0, Some(grace_end())));
    assert_eq!(with(0, later).with_grace(&released, NOW), with(0, None), "the lease was released");
    let it = with(0, Some(grace_end()));
    assert_eq!([NOW, grace_end()].map(|now| it.is_grace_over(now)), [false, true]);
}

// Requirement: P-6
#[test]
fn only_ready_may_be_referred_to_and_leaving_is_teardown() {
    let said = |phase| {
        let it = config(|it| it.phase = phase);
        (it.is_ready(), it.is_tearing_down())
    };
    let found: Vec<_> = Phase::ALL.iter().map(|phase| said(*phase)).collect();
    assert_eq!(found, [(false, false), (true, false), (false, true), (false, true)]);
}

#[test]
fn a_complete_snapshot_of_nothing_is_absence() {
    let loud = ProviderConfig { grace_until: Some(grace_end()), ..out(G1) };
    for (it, settled) in [(config(|_| ()), false), (loud, false), (out(G1), true)] {
        let sighting = |name| Sighting {
            plural: None,
            name,
            answer: Answer::Absent { settled },
            by: "cluster".to_owned(),
            at: NOW,
        };
        let names = [
            it.anchor_name(G1),
            it.config_name(G1),
            it.external_secret_name(G1),
            it.secret_name(G1),
        ];
        let sightings = names.map(sighting).to_vec();
        let expected = Observed { facts: NOTHING, sightings, existing: vec![] };
        assert_eq!(
            fold(&it, &NameLedger::default(), &bent(|_| ())),
            expected,
            "settled: {settled}"
        );
    }
}

// Requirement: O-1
#[test]
fn a_missing_answer_is_unknown_and_names_its_cause() {
    let sights = [
        (Unreachable, Visibility::Unreachable),
        (Forbidden, Visibility::Forbidden),
        (ClusterReplaced, Visibility::ClusterReplaced),
    ];
    for (why, visibility) in sights {
        let nothing = Facts { visibility, ..NOTHING };
        let cases = [
            (bent(|it| it.namespace_ready = Err(why)), Facts { gate: Gate::Unknown, ..nothing }),
            (bent(|it| it.anchors = Err(why)), Facts { anchor: Anchor::Unknown, ..nothing }),
            (bent(|it| it.config = Err(why)), Facts { object: Object::Unknown, ..nothing }),
            (
                bent(|it| it.external_secret = Err(why)),
                Facts { object: Object::Unknown, ..nothing },
            ),
            (bent(|it| it.secret = Err(why)), Facts { object: Object::Unknown, ..nothing }),
        ];
        for (snapshot, facts) in cases {
            let it = out(G1);
            let name_ledger =
                NameLedger::new([seen(it.anchor_name(G1), "a"), seen(it.config_name(G1), "c")]);
            let folded = fold(&it, &name_ledger, &snapshot);
            assert_eq!(folded.facts, facts, "{why:?}");
            let unknown = |it: &Sighting| it.answer == Answer::Unknown(why);
            let unanswered = folded.sightings.iter().filter(|it| unknown(it)).count();
            assert_eq!(unanswered, usize::from(facts.gate == Gate::Ready), "{snapshot:?}");
        }
    }
    let shut = bent(|it| it.namespace_ready = Ok(false));
    let facts = fold(&config(|_| ()), &NameLedger::default(), &shut).facts;
    assert_eq!(facts, Facts { gate: Gate::NotReady, ..NOTHING });
    let guard = bent(|it| it.guard_tripped = true);
    let facts = fold(&config(|_| ()), &NameLedger::default(), &guard).facts;
    assert_eq!(facts, Facts { visibility: Visibility::GuardTripped, ..NOTHING });
}

// Requirement: P-9
#[test]
fn an_object_is_ours_by_labels_and_by_the_recorded_anchor_as_owner() {
    let it = config(|_| ());
    let name = it.config_name(G1);
    let other = |bend: fn(&mut Found)| {
        let mut object = found("c", "a");
        bend(&mut object);
        object
    };
    let plain = || found("c", "a");
    let recorded = || seen(name.clone(), "c");
    let intent = || intended(name.clone());
    let cases = [
        (intent(), plain(), Object::Unrecorded, "seen for the first time"),
        (recorded(), plain(), Object::Present, "recorded"),
        (seen(name.clone(), "d"), plain(), Object::Unrecorded, "another was recorded"),
        (gone(name.clone(), "c"), plain(), Object::Unrecorded, "the row says it is gone"),
        (recorded(), other(|it| it.drifted = true), Object::Drifted, "drifted"),
        (intent(), other(|it| it.drifted = true), Object::Unrecorded, "recorded before mended"),
        (recorded(), other(|it| it.object.deleting = true), Object::Deleting, "being deleted"),
        (
            recorded(),
            other(|it| it.object.record_id = None),
            Object::Present,
            "on record, stripped",
        ),
        (recorded(), other(|it| it.object.owner = None), Object::Present, "on record, disowned"),
        (intent(), other(|it| it.object.record_id = None), Object::Foreign, "not our labels"),
        (intent(), other(|it| it.object.owner = None), Object::Foreign, "no owner"),
        (intent(), found("c", "b"), Object::Foreign, "another owner"),
        (intent(), found("c", "s"), Object::Foreign, "owned by what is no anchor"),
    ];
    for (row, object, expected, why) in cases {
        let mut stranger = seen(name.clone(), "s");
        stranger.name.name = "other".into();
        let beside = seen(it.external_secret_name(G1), "e");
        let name_ledger = NameLedger::new([seen(it.anchor_name(G1), "a"), row, stranger, beside]);
        let folded = fold(
            &it,
            &name_ledger,
            &bent(|snapshot| {
                snapshot.config = Ok(Some(object));
                snapshot.external_secret = Ok(Some(found("e", "a")));
            }),
        );
        assert_eq!(folded.facts.object, expected, "{why}");
        let existing = [(name.clone(), "r-c".to_owned())];
        let existing = existing.into_iter().filter(|_| expected != Object::Foreign);
        let beside = (it.external_secret_name(G1), "r-e".to_owned());
        assert_eq!(folded.existing, existing.chain([beside]).collect::<Vec<_>>(), "{why}");
    }
}

/// The state of one of the objects, and its row.
fn stand(name: Name, uid: &str, owner: &str, how: Object) -> (Reading<Option<Found>>, Row) {
    let mut it = found(uid, owner);
    it.drifted = how == Object::Drifted;
    it.object.deleting = how == Object::Deleting;
    match how {
        Object::Unknown => (Err(Unreachable), seen(name, uid)),
        Object::Absent => (Ok(None), gone(name, uid)),
        Object::Unrecorded => (Ok(Some(it)), intended(name)),
        Object::Foreign => (Ok(Some(found("f", "b"))), gone(name, uid)),
        Object::Present | Object::Drifted | Object::Deleting => (Ok(Some(it)), seen(name, uid)),
    }
}

/// The fact of a ProviderConfig whose three objects are in this state.
fn fact(it: &ProviderConfig, [config, external_secret, secret]: [Object; 3]) -> Object {
    let config = stand(it.config_name(G1), "c", "a", config);
    let external_secret = stand(it.external_secret_name(G1), "e", "a", external_secret);
    let secret = stand(it.secret_name(G1), "s", "e", secret);
    let name_ledger =
        NameLedger::new([seen(it.anchor_name(G1), "a"), config.1, external_secret.1, secret.1]);
    let snapshot = bent(|snapshot| {
        snapshot.config = config.0;
        snapshot.external_secret = external_secret.0;
        snapshot.secret = secret.0;
    });
    fold(it, &name_ledger, &snapshot).facts.object
}

// Requirement: P-10
#[test]
fn both_that_are_written_must_be_there_and_the_worse_one_counts() {
    use Object::{Absent, Deleting, Drifted, Foreign, Present, Unknown, Unrecorded};
    let it = config(|_| ());
    let worst_first = [Unknown, Foreign, Deleting, Unrecorded, Drifted, Present];
    for (rank, worse) in worst_first.into_iter().enumerate() {
        for other in &worst_first[rank..] {
            for pair in [[worse, *other], [*other, worse]] {
                let [config, external_secret] = pair;
                let found = fact(&it, [config, external_secret, Present]);
                assert_eq!(found, worse, "{pair:?}");
            }
        }
    }
    for (config, external_secret) in [(Present, Absent), (Absent, Present)] {
        assert_eq!(fact(&it, [config, external_secret, Present]), Drifted, "one is missing");
    }
    assert_eq!(fact(&it, [Absent, Absent, Absent]), Absent);
    for secret in [Absent, Present, Deleting, Unrecorded, Unknown] {
        assert_eq!(fact(&it, [Present, Present, secret]), Present, "not ours to write");
        assert_eq!(fact(&it, [Absent, Absent, secret]), Absent, "not ours to write");
    }
    assert_eq!(fact(&it, [Present, Present, Foreign]), Foreign, "its name is taken");
}

#[test]
fn in_teardown_a_present_object_counts_before_a_foreign_one() {
    use Object::{Absent, Deleting, Drifted, Foreign, Present, Unknown, Unrecorded};
    let worst_first = [Unknown, Deleting, Unrecorded, Drifted, Present, Foreign, Absent];
    let it = out(G1);
    for (rank, worse) in worst_first.into_iter().enumerate() {
        for other in &worst_first[rank..] {
            for facts in [[worse, *other, *other], [*other, worse, *other]] {
                assert_eq!(fact(&it, facts), worse, "{facts:?}");
            }
        }
    }
    for secret in [Present, Deleting, Unrecorded, Unknown, Foreign] {
        assert_eq!(fact(&it, [Absent, Absent, secret]), secret, "it is deleted with the others");
    }
}

// Requirement: L-21
#[test]
fn a_secret_is_ours_by_its_external_secret_and_recorded_when_seen() {
    let it = out(G1);
    let mut secret = found("s", "e");
    secret.object.record_id = None;
    let snapshot = bent(|snapshot| {
        snapshot.external_secret = Ok(Some(found("e", "a")));
        snapshot.secret = Ok(Some(secret.clone()));
    });
    let rows = [
        seen(it.anchor_name(G1), "a"),
        intended(it.config_name(G1)),
        intended(it.external_secret_name(G1)),
    ];
    let name_ledger = NameLedger::new(rows);
    let folded = fold(&it, &name_ledger, &snapshot);
    let after = name_ledger.with(&name_ledger.absorb(&folded.sightings));
    let recorded = |name: &Name| after.seen(name).and_then(|row| row.uid.clone());
    assert_eq!(recorded(&it.external_secret_name(G1)), Some(Uid::new("e")));
    assert_eq!(recorded(&it.secret_name(G1)), Some(Uid::new("s")), "in the same snapshot");
    let alone = bent(|snapshot| snapshot.secret = Ok(Some(secret.clone())));
    let left = fold(&it, &after, &alone);
    assert_eq!(left.existing, [(it.secret_name(G1), "r-s".to_owned())], "not collected yet");
    let stranger = Found { object: object("s", Some("a")), ..secret };
    let strange = bent(|snapshot| snapshot.secret = Ok(Some(stranger)));
    let facts = fold(&it, &name_ledger, &strange).facts;
    assert_eq!(facts.object, Object::Foreign, "no ExternalSecret owns it");
}

// Requirement: P-9
#[test]
fn an_object_of_an_older_generation_holds_the_name_until_it_is_collected() {
    let it = config(|it| it.generation = G2);
    let rows = [
        gone(it.anchor_name(G1), "a1"),
        gone(it.config_name(G1), "c0"),
        seen(it.anchor_name(G2), "a2"),
        intended(it.config_name(G2)),
    ];
    let name_ledger = NameLedger::new(rows);
    let late = bent(|snapshot| snapshot.config = Ok(Some(found("c1", "a1"))));
    assert_eq!(fold(&it, &name_ledger, &late).facts.object, Object::Foreign, "it holds the name");
    let open = Answer::Absent { settled: false };
    let found = vec![(G1, present("c1", true)), (G2, open.clone())];
    assert_eq!(answers(&it, &name_ledger, &late), found, "it is the old one's");
    let after = name_ledger.with(&name_ledger.absorb(&fold(&it, &name_ledger, &late).sightings));
    assert_eq!(
        after.seen(&it.config_name(G1)).and_then(|row| row.uid.clone()),
        Some(Uid::new("c1"))
    );
    let empty = bent(|_| ());
    assert_eq!(answers(&it, &after, &empty), vec![(G1, open.clone()), (G2, open)]);
    let free = after.with(&after.absorb(&fold(&it, &after, &empty).sightings));
    assert_eq!(free.seen(&it.config_name(G1)), None, "collected, and recorded as gone");
    let showing_out = out(G2);
    let facts = fold(&showing_out, &name_ledger, &late).facts;
    assert_eq!(facts.object, Object::Unrecorded, "in teardown it must be deleted");
    let facts = fold(&showing_out, &after, &late).facts;
    assert_eq!(facts.object, Object::Present, "and, once recorded, its deletion is requested");
}

// Requirement: P-9
#[test]
fn a_foreign_object_is_foreign_to_every_generation() {
    let it = config(|it| it.generation = G2);
    let name_ledger =
        NameLedger::new([gone(it.config_name(G1), "c1"), foreign(it.config_name(G2))]);
    let snapshot = bent(|snapshot| snapshot.config = Ok(Some(found("d", "b"))));
    let found = vec![(G1, present("d", false)), (G2, present("d", false))];
    assert_eq!(answers(&it, &name_ledger, &snapshot), found);
    assert_eq!(fold(&it, &name_ledger, &snapshot).facts.object, Object::Foreign);
}

#[test]
fn every_anchor_counts_in_teardown_else_the_current_one() {
    let snapshot = bent(|snapshot| snapshot.anchors = Ok([(G1, object("a1", None))].into()));
    let anchor = |it: &ProviderConfig| {
        let rows = [seen(it.anchor_name(G1), "a1"), gone(it.anchor_name(G2), "a2")];
        fold(it, &NameLedger::new(rows), &snapshot).facts.anchor
    };
    assert_eq!(anchor(&config(|it| it.generation = G2)), Anchor::Absent);
    assert_eq!(anchor(&out(G2)), Anchor::Ours);
    assert_eq!(anchor(&config(|_| ())), Anchor::Ours, "the current one");
}

// Requirement: O-4
#[test]
fn in_a_replaced_world_only_recorded_uids_count() {
    let it = config(|it| it.generation = G2);
    let rows = [
        gone(it.anchor_name(G1), "a1"),
        seen(it.anchor_name(G2), "a2"),
        seen(it.config_name(G2), "c2"),
        seen(it.external_secret_name(G2), "e2"),
    ];
    let name_ledger = NameLedger::new(rows);
    let replaced = |anchor: &str, object: Option<Found>| {
        let snapshot = bent(|snapshot| {
            snapshot.authority = Authority::Replaced;
            snapshot.anchors = Ok([(G2, self::object(anchor, None))].into());
            snapshot.config = Ok(object);
            snapshot.external_secret = Ok(Some(found("e2", "a2")));
        });
        fold(&it, &name_ledger, &snapshot).facts
    };
    let blind = Facts {
        visibility: Visibility::ClusterReplaced,
        anchor: Anchor::Unknown,
        object: Object::Unknown,
        ..NOTHING
    };
    assert_eq!(replaced("b", None), blind, "absence is unknown");
    assert_eq!(replaced("b", Some(found("d", "a2"))), blind, "another uid is unknown");
    assert_eq!(replaced("b", Some(found("d", "a1"))), blind, "an older one is unknown");
    let recorded = Facts { anchor: Anchor::Ours, object: Object::Present, ..blind };
    assert_eq!(replaced("a2", Some(found("c2", "a2"))), recorded, "what is on record counts");
}
