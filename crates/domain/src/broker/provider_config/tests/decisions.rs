//! What a decision makes of a verdict.

use super::*;

/// A decision, in parts that can be compared.
type Parts = (ProviderConfig, Vec<Row>, Option<Verb>, Wake, Reason);

fn decide(state: &ProviderConfig, rows: &[Row], seen: &Observed) -> Parts {
    let record = Record {
        version: Version(1),
        state: state.clone(),
        name_ledger: NameLedger::new(rows.to_vec()),
    };
    let Decision { next, rows, effect, event, wake, reason } =
        ProviderConfigReconciler::default().decide(&record, seen, NOW);
    assert!(event.is_none(), "a ProviderConfig emits no event");
    (next, rows, effect, wake, reason)
}

fn observed(facts: Facts) -> Observed {
    Observed { facts, sightings: vec![], existing: vec![] }
}

fn soon() -> Wake {
    Wake::At(NOW.after(Duration::from_secs(30)))
}

const UP: Facts = Facts { anchor: Anchor::Ours, object: Object::Present, ..NOTHING };

// Requirement: P-7
#[test]
fn every_verb_is_addressed_by_the_rows() {
    let it = config(|it| it.generation = G2);
    let [anchor, name] = [it.anchor_name(G2), it.config_name(G2)];
    let secret = it.external_secret_name(G2);
    let uid = Uid::new;
    let made = vec![seen(anchor.clone(), "a2"), intended(name.clone())];
    let kept = vec![seen(anchor.clone(), "a2"), seen(name.clone(), "c2")];
    let leaving = out(G2);
    let all = vec![
        seen(name.clone(), "c2"),
        seen(it.secret_name(G1), "s1"),
        seen(it.external_secret_name(G1), "e1"),
        seen(it.config_name(G1), "c1"),
        seen(anchor.clone(), "a2"),
        seen(it.anchor_name(G1), "a1"),
    ];
    let absent = Facts { anchor: Anchor::Ours, ..NOTHING };
    let anchor_leaves = Facts { anchor: Anchor::Leaving, ..NOTHING };
    let drifted = Facts { object: Object::Drifted, ..UP };
    let apply = |uid| {
        let objects = vec![(secret.clone(), None), (name.clone(), uid)];
        Verb::Apply { objects, anchor: Uid::new("a2") }
    };
    let delete = Verb::Delete {
        object: it.external_secret_name(G1),
        uid: uid("e1"),
        revision: "r-e".to_owned(),
    };
    let delete_anchor = |it: &ProviderConfig, generation, text| Verb::DeleteAnchor {
        anchor: it.anchor_name(generation),
        uid: uid(text),
    };
    let cases = [
        (&it, vec![], NOTHING, Verb::CreateAnchor { anchor }, Reason::CreatingAnchor),
        (&it, made, absent, apply(None), Reason::Creating),
        (&it, kept, drifted, apply(Some(uid("c2"))), Reason::CorrectingDrift),
        (&leaving, all.clone(), UP, delete, Reason::Deleting),
        (&leaving, all.clone(), absent, delete_anchor(&it, G1, "a1"), Reason::DeletingAnchor),
        (&it, all, anchor_leaves, delete_anchor(&it, G2, "a2"), Reason::DeletingAnchor),
    ];
    let existing = vec![
        (it.external_secret_name(G1), "r-e".to_owned()),
        (it.secret_name(G1), "r-s".to_owned()),
    ];
    for (it, rows, facts, verb, reason) in cases {
        let expected = (it.clone(), vec![], Some(verb), soon(), reason);
        let seen = Observed { existing: existing.clone(), ..observed(facts) };
        assert_eq!(decide(it, &rows, &seen), expected, "{reason}");
    }
}

// Requirement: P-7
#[test]
fn the_objects_are_deleted_one_after_the_other() {
    let it = out(G1);
    let names = [it.config_name(G1), it.external_secret_name(G1), it.secret_name(G1)];
    let uids = ["c", "e", "s"];
    let mut reading: Vec<_> =
        [found("c", "a"), found("e", "a"), found("s", "e")].into_iter().map(Some).collect();
    let rows = [seen(it.anchor_name(G1), "a")].into_iter();
    let rows = rows.chain(names.iter().cloned().zip(uids).map(|(name, uid)| seen(name, uid)));
    let mut name_ledger = NameLedger::new(rows);
    for (next, (name, uid)) in names.iter().zip(uids).enumerate() {
        let snapshot = bent(|snapshot| {
            snapshot.anchors = Ok([(G1, object("a", None))].into());
            let [config, external_secret, secret] = [0, 1, 2].map(|it| reading[it].clone());
            snapshot.config = Ok(config);
            snapshot.external_secret = Ok(external_secret);
            snapshot.secret = Ok(secret);
        });
        let seen = fold(&it, &name_ledger, &snapshot);
        let (_, changed, verb, ..) = decide(&it, name_ledger.rows(), &seen);
        let (object, uid) = (name.clone(), Uid::new(uid));
        let revision = format!("r-{}", uid.0);
        assert_eq!(verb, Some(Verb::Delete { object, uid, revision }));
        name_ledger = name_ledger.with(&changed);
        reading[next] = None;
    }
}

#[test]
fn a_verb_on_an_object_not_recorded_as_ours_is_not_applied() {
    let it = config(|_| ());
    let leaving = out(G1);
    let absent = Facts { anchor: Anchor::Ours, ..NOTHING };
    let existing = vec![(it.config_name(G1), "r1".to_owned())];
    let up = || Observed { existing: existing.clone(), ..observed(UP) };
    let [anchor, name] = [it.anchor_name(G1), it.config_name(G1)];
    let cases = [
        (&it, vec![intended(anchor.clone())], observed(absent), "the anchor was not seen"),
        (&it, vec![seen(name.clone(), "c")], observed(absent), "no anchor is recorded"),
        (&leaving, vec![intended(name.clone())], up(), "the object was not seen"),
        (&leaving, vec![seen(anchor.clone(), "a")], up(), "an anchor is no object"),
        (&leaving, vec![seen(name.clone(), "c")], observed(UP), "the revision is unknown"),
        (&leaving, vec![intended(anchor)], observed(absent), "the anchor was not seen"),
        (&leaving, vec![seen(name, "c")], observed(absent), "an object is no anchor"),
    ];
    for (it, rows, seen, why) in cases {
        assert_eq!(decide(it, &rows, &seen).2, None, "{why}");
    }
}

// Requirement: P-11
#[test]
fn the_anchor_waits_for_the_in_flight_grace() {
    let loud = ProviderConfig { grace_until: Some(grace_end()), ..out(G1) };
    let rows = [seen(loud.anchor_name(G1), "a"), seen(loud.config_name(G1), "c")];
    let absent = observed(Facts { anchor: Anchor::Ours, ..NOTHING });
    let expected = (loud.clone(), vec![], None, Wake::At(grace_end()), Reason::InFlightGrace);
    assert_eq!(decide(&loud, &rows, &absent), expected);
    let up = Observed { existing: vec![(loud.config_name(G1), "r1".to_owned())], ..observed(UP) };
    let delete = decide(&loud, &rows, &up).2;
    assert!(matches!(delete, Some(Verb::Delete { .. })), "objects may be deleted all the while");
    let quiet = ProviderConfig { grace_until: Some(NOW), ..loud };
    let verb = decide(&quiet, &rows, &absent).2;
    assert!(matches!(verb, Some(Verb::DeleteAnchor { .. })), "{verb:?}");
}

// Requirement: P-4
#[test]
fn teardown_starts_when_the_last_user_is_removed() {
    let it = config(|it| {
        it.phase = Phase::Ready;
        it.users = 0;
    });
    let rows = [seen(it.anchor_name(G1), "a"), seen(it.config_name(G1), "c")];
    let expected = (out(G1), vec![], None, Wake::Now, Reason::NoUsers);
    assert_eq!(decide(&it, &rows, &observed(UP)), expected, "committed first");
    let used = config(|it| it.phase = Phase::Ready);
    let expected = (used.clone(), vec![], None, Wake::OnChange, Reason::AsDeclared);
    assert_eq!(decide(&used, &rows, &observed(UP)), expected, "a resource uses it");
}

// Requirement: P-5
#[test]
fn it_is_gone_when_all_rows_settle_and_a_new_user_restarts_it() {
    let it = out(G1);
    let open = [seen(it.config_name(G1), "c")];
    let settled = [gone(it.config_name(G1), "c")];
    let expected = (it.clone(), vec![], None, soon(), Reason::NamesNotYetGone);
    assert_eq!(decide(&it, &open, &observed(NOTHING)), expected);
    let away = ProviderConfig { phase: Phase::Gone, ..it.clone() };
    let expected = (away, vec![], None, Wake::OnChange, Reason::Gone);
    assert_eq!(decide(&it, &settled, &observed(NOTHING)), expected);
    let next = config(|it| it.generation = G2);
    let rows = next.intended("usher", NOW);
    let expected = (next, rows, None, Wake::Now, Reason::GenerationReplaced);
    let joined = ProviderConfig { grace_until: Some(NOW), ..it.joined() };
    assert_eq!(decide(&joined, &settled, &observed(NOTHING)), expected);
}

#[test]
fn what_was_seen_is_recorded_with_the_decision() {
    let it = out(G1);
    let rows = [intended(it.config_name(G1))];
    let sightings = vec![Sighting {
        plural: None,
        name: it.config_name(G1),
        answer: Answer::Absent { settled: true },
        by: "cluster".to_owned(),
        at: NOW,
    }];
    let seen = Observed { sightings, ..observed(NOTHING) };
    let changed = NameLedger::new(rows.to_vec()).absorb(&seen.sightings);
    assert_eq!(changed.len(), 1);
    let away = ProviderConfig { phase: Phase::Gone, ..it.clone() };
    let expected = (away, changed, None, Wake::OnChange, Reason::Gone);
    assert_eq!(decide(&it, &rows, &seen), expected);
}

#[test]
fn an_incomplete_snapshot_is_requeued() {
    let it = config(|it| it.phase = Phase::Ready);
    assert_eq!(decide(&it, &[], &observed(UP)).3, Wake::OnChange);
    let (name, by) = (it.anchor_name(G1), "cluster".to_owned());
    let missed = Sighting { plural: None, name, answer: Answer::Unknown(Unreachable), by, at: NOW };
    let blind = Observed { sightings: vec![missed], ..observed(UP) };
    assert_eq!(decide(&it, &[], &blind).3, soon());
}
