//! The row, the judgement of a look, and what a decision makes of a verdict.

use std::time::Duration;

use usher_kernel::Unknown::{ClusterReplaced, Forbidden, Unreachable};
use usher_kernel::{
    Answer, Book, Decision, Evidence, Lifecycle, Record, Sighting, Standing, Uid, Version, Wake,
};

use super::*;
use crate::broker::facts::{Anchor, Gate, Sight};
use crate::broker::fixture::{G1, G2, NOW, foreign, gone, installation, intended, seen, uuid};
use crate::broker::look;
use crate::object::authority::Authority;

fn config(bend: impl FnOnce(&mut ProviderConfig)) -> ProviderConfig {
    let mut config = ProviderConfig {
        id: ProviderConfigId::from_uuid(uuid(7)),
        installation: installation(),
        world: "local".to_owned(),
        namespace: "ns".to_owned(),
        credential: CredentialId::from_uuid(uuid(5)),
        users: 1,
        phase: Phase::Pending,
        generation: G1,
    };
    bend(&mut config);
    config
}

fn out(generation: Generation) -> ProviderConfig {
    config(|it| {
        it.phase = Phase::Leaving;
        it.users = 0;
        it.generation = generation;
    })
}

fn object(uid: &str, owner: Option<&str>) -> look::Object {
    look::Object {
        uid: Uid::new(uid),
        installation: Some(installation().to_string()),
        life: Some(config(|_| ()).id.to_string()),
        owner: owner.map(Uid::new),
        deleting: false,
    }
}

fn found(uid: &str, owner: &str) -> ConfigObject {
    ConfigObject { object: object(uid, Some(owner)), drifted: false, revision: "r1".to_owned() }
}

fn bent(bend: impl FnOnce(&mut Look)) -> Look {
    let mut look = Look {
        by: "cluster".to_owned(),
        at: NOW,
        authority: Authority::Pinned,
        rail_tripped: false,
        namespace_ready: Ok(true),
        anchors: Ok([].into()),
        object: Ok(None),
    };
    bend(&mut look);
    look
}

const NOTHING: Facts = Facts {
    sight: Sight::Clear,
    gate: Gate::Ready,
    anchor: Anchor::Absent,
    object: Object::Absent,
};

fn present(uid: &str, ours: bool) -> Answer {
    Answer::Present { uid: Uid::new(uid), ours }
}

/// The answers about the object, by generation.
fn answers(config: &ProviderConfig, book: &Book, look: &Look) -> Vec<(Generation, Answer)> {
    let sightings = fold(config, book, look).sightings.into_iter();
    let wanted = sightings.filter(|it| it.name.kind == KIND_CONFIG);
    wanted.map(|it| (it.name.generation, it.answer)).collect()
}

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
        name("ProviderConfig", format!("pc-{}", it.id)),
    ];
    assert_eq!([it.anchor_name(G2), it.config_name(G2)], names);
    let row = |name| Row {
        name,
        incarnation: 1,
        standing: Standing::Intended,
        uid: None,
        evidence: Evidence::new("usher", "recorded", NOW),
    };
    assert_eq!(it.intended("usher", NOW), names.map(row));
}

#[test]
fn users_are_counted_and_never_below_none() {
    let with = |users| config(|it| it.users = users);
    assert_eq!(with(1).joined(), with(2));
    assert_eq!(with(2).parted(), with(1));
    assert_eq!(with(0).parted(), with(0), "told deleted twice");
    assert_eq!(with(u32::MAX).joined(), with(u32::MAX));
}

#[test]
fn only_ready_may_be_referred_to_and_leaving_is_leaving() {
    let said = |phase| {
        let it = config(|it| it.phase = phase);
        (it.is_ready(), it.is_showing_out())
    };
    let told: Vec<_> = Phase::ALL.iter().map(|phase| said(*phase)).collect();
    assert_eq!(told, [(false, false), (true, false), (false, true), (false, true)]);
}

#[test]
fn a_clear_look_at_nothing_says_so() {
    for (it, settled) in [(config(|_| ()), false), (out(G1), true)] {
        let sighting = |name| Sighting {
            name,
            answer: Answer::Absent { settled },
            by: "cluster".to_owned(),
            at: NOW,
        };
        let sightings = vec![sighting(it.anchor_name(G1)), sighting(it.config_name(G1))];
        let expected = Observed { facts: NOTHING, sightings, revision: None };
        assert_eq!(fold(&it, &Book::default(), &bent(|_| ())), expected, "settled: {settled}");
    }
}

#[test]
fn a_missing_answer_is_unknown_and_names_its_cause() {
    let sights = [
        (Unreachable, Sight::Unreachable),
        (Forbidden, Sight::Forbidden),
        (ClusterReplaced, Sight::ClusterReplaced),
    ];
    for (why, sight) in sights {
        let nothing = Facts { sight, ..NOTHING };
        let cases = [
            (bent(|it| it.namespace_ready = Err(why)), Facts { gate: Gate::Unknown, ..nothing }),
            (bent(|it| it.anchors = Err(why)), Facts { anchor: Anchor::Unknown, ..nothing }),
            (bent(|it| it.object = Err(why)), Facts { object: Object::Unknown, ..nothing }),
        ];
        for (look, facts) in cases {
            let it = out(G1);
            let book = Book::new([seen(it.anchor_name(G1), "a"), seen(it.config_name(G1), "c")]);
            let folded = fold(&it, &book, &look);
            assert_eq!(folded.facts, facts, "{why:?}");
            let unknown = |it: &Sighting| it.answer == Answer::Unknown(why);
            let unheard = folded.sightings.iter().filter(|it| unknown(it)).count();
            assert_eq!(unheard, usize::from(facts.gate == Gate::Ready), "{look:?}");
        }
    }
    let shut = bent(|it| it.namespace_ready = Ok(false));
    let facts = fold(&config(|_| ()), &Book::default(), &shut).facts;
    assert_eq!(facts, Facts { gate: Gate::NotReady, ..NOTHING });
    let rail = bent(|it| it.rail_tripped = true);
    let facts = fold(&config(|_| ()), &Book::default(), &rail).facts;
    assert_eq!(facts, Facts { sight: Sight::RailTripped, ..NOTHING });
}

#[test]
fn the_object_is_ours_by_labels_and_by_the_recorded_anchor_as_owner() {
    let it = config(|_| ());
    let name = it.config_name(G1);
    let other = |bend: fn(&mut ConfigObject)| {
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
        (recorded(), other(|it| it.object.deleting = true), Object::Deleting, "on its way out"),
        (recorded(), other(|it| it.object.life = None), Object::Present, "on record, stripped"),
        (recorded(), other(|it| it.object.owner = None), Object::Present, "on record, disowned"),
        (intent(), other(|it| it.object.life = None), Object::Foreign, "not our labels"),
        (intent(), other(|it| it.object.owner = None), Object::Foreign, "no owner"),
        (intent(), found("c", "b"), Object::Foreign, "another owner"),
        (intent(), found("c", "s"), Object::Foreign, "owned by what is no anchor"),
    ];
    for (row, object, expected, why) in cases {
        let mut stranger = seen(name.clone(), "s");
        stranger.name.name = "other".into();
        let book = Book::new([seen(it.anchor_name(G1), "a"), row, stranger]);
        let folded = fold(&it, &book, &bent(|look| look.object = Ok(Some(object))));
        assert_eq!(folded.facts.object, expected, "{why}");
        assert_eq!(folded.revision.as_deref(), Some("r1"), "{why}");
    }
}

#[test]
fn an_object_of_an_older_generation_holds_the_name_until_it_is_collected() {
    let it = config(|it| it.generation = G2);
    let rows = [
        gone(it.anchor_name(G1), "a1"),
        gone(it.config_name(G1), "c0"),
        seen(it.anchor_name(G2), "a2"),
        intended(it.config_name(G2)),
    ];
    let book = Book::new(rows);
    let late = bent(|look| look.object = Ok(Some(found("c1", "a1"))));
    assert_eq!(fold(&it, &book, &late).facts.object, Object::Foreign, "it holds the name");
    let open = Answer::Absent { settled: false };
    let told = vec![(G1, present("c1", true)), (G2, open.clone())];
    assert_eq!(answers(&it, &book, &late), told, "it is the old one's");
    let after = book.with(&book.absorb(&fold(&it, &book, &late).sightings));
    assert_eq!(
        after.seen(&it.config_name(G1)).and_then(|row| row.uid.clone()),
        Some(Uid::new("c1"))
    );
    let empty = bent(|_| ());
    assert_eq!(answers(&it, &after, &empty), vec![(G1, open.clone()), (G2, open)]);
    let free = after.with(&after.absorb(&fold(&it, &after, &empty).sightings));
    assert_eq!(free.seen(&it.config_name(G1)), None, "collected, and recorded as gone");
    let showing_out = out(G2);
    let facts = fold(&showing_out, &book, &late).facts;
    assert_eq!(facts.object, Object::Unrecorded, "while showing out it has to go");
    let facts = fold(&showing_out, &after, &late).facts;
    assert_eq!(facts.object, Object::Present, "and recorded it is asked to");
}

#[test]
fn a_foreign_object_is_foreign_to_every_generation() {
    let it = config(|it| it.generation = G2);
    let book = Book::new([gone(it.config_name(G1), "c1"), foreign(it.config_name(G2))]);
    let look = bent(|look| look.object = Ok(Some(found("d", "b"))));
    let told = vec![(G1, present("d", false)), (G2, present("d", false))];
    assert_eq!(answers(&it, &book, &look), told);
    assert_eq!(fold(&it, &book, &look).facts.object, Object::Foreign);
}

#[test]
fn every_anchor_counts_while_showing_out_and_the_current_one_otherwise() {
    let look = bent(|look| look.anchors = Ok([(G1, object("a1", None))].into()));
    let anchor = |it: &ProviderConfig| {
        let rows = [seen(it.anchor_name(G1), "a1"), gone(it.anchor_name(G2), "a2")];
        fold(it, &Book::new(rows), &look).facts.anchor
    };
    assert_eq!(anchor(&config(|it| it.generation = G2)), Anchor::Absent);
    assert_eq!(anchor(&out(G2)), Anchor::Ours);
    assert_eq!(anchor(&config(|_| ())), Anchor::Ours, "the current one");
}

#[test]
fn in_a_replaced_world_only_recorded_uids_count() {
    let it = config(|it| it.generation = G2);
    let rows = [
        gone(it.anchor_name(G1), "a1"),
        seen(it.anchor_name(G2), "a2"),
        seen(it.config_name(G2), "c2"),
    ];
    let book = Book::new(rows);
    let replaced = |anchor: &str, object: Option<ConfigObject>| {
        let look = bent(|look| {
            look.authority = Authority::Replaced;
            look.anchors = Ok([(G2, self::object(anchor, None))].into());
            look.object = Ok(object);
        });
        fold(&it, &book, &look).facts
    };
    let blind = Facts {
        sight: Sight::ClusterReplaced,
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

/// A decision, in parts that can be compared.
type Parts = (ProviderConfig, Vec<Row>, Option<Verb>, Wake, Reason);

fn decide(state: &ProviderConfig, rows: &[Row], seen: &Observed) -> Parts {
    let record =
        Record { version: Version(1), state: state.clone(), book: Book::new(rows.to_vec()) };
    let Decision { next, rows, effect, event, wake, reason } =
        Life::default().decide(&record, seen, NOW);
    assert!(event.is_none(), "a ProviderConfig tells nothing");
    (next, rows, effect, wake, reason)
}

fn observed(facts: Facts) -> Observed {
    Observed { facts, sightings: vec![], revision: Some("r1".to_owned()) }
}

fn soon() -> Wake {
    Wake::At(NOW.after(Duration::from_secs(30)))
}

const UP: Facts = Facts { anchor: Anchor::Ours, object: Object::Present, ..NOTHING };

#[test]
fn every_verb_is_addressed_by_the_rows() {
    let it = config(|it| it.generation = G2);
    let [anchor, name] = [it.anchor_name(G2), it.config_name(G2)];
    let uid = Uid::new;
    let made = vec![seen(anchor.clone(), "a2"), intended(name.clone())];
    let kept = vec![seen(anchor.clone(), "a2"), seen(name.clone(), "c2")];
    let leaving = out(G2);
    let both = vec![
        seen(name.clone(), "c2"),
        seen(it.config_name(G1), "c1"),
        seen(anchor.clone(), "a2"),
        seen(it.anchor_name(G1), "a1"),
    ];
    let absent = Facts { anchor: Anchor::Ours, ..NOTHING };
    let drifted = Facts { object: Object::Drifted, ..UP };
    let apply = |uid| Verb::Apply { config: name.clone(), uid, anchor: Uid::new("a2") };
    let delete =
        Verb::Delete { config: it.config_name(G1), uid: uid("c1"), revision: "r1".to_owned() };
    let delete_anchor = Verb::DeleteAnchor { anchor: it.anchor_name(G1), uid: uid("a1") };
    let cases = [
        (&it, vec![], NOTHING, Verb::CreateAnchor { anchor }, Reason::CreatingAnchor),
        (&it, made, absent, apply(None), Reason::Creating),
        (&it, kept, drifted, apply(Some(uid("c2"))), Reason::Correcting),
        (&leaving, both.clone(), UP, delete, Reason::Deleting),
        (&leaving, both, absent, delete_anchor, Reason::DeletingAnchor),
    ];
    for (it, rows, facts, verb, reason) in cases {
        let phase = if reason == Reason::Correcting { Phase::Ready } else { it.phase };
        let next = ProviderConfig { phase, ..it.clone() };
        let expected = (next, vec![], Some(verb), soon(), reason);
        assert_eq!(decide(it, &rows, &observed(facts)), expected, "{reason}");
    }
}

#[test]
fn a_verb_whose_object_is_not_recorded_as_ours_is_not_done() {
    let it = config(|_| ());
    let leaving = out(G1);
    let absent = Facts { anchor: Anchor::Ours, ..NOTHING };
    let unread = Observed { revision: None, ..observed(UP) };
    let [anchor, name] = [it.anchor_name(G1), it.config_name(G1)];
    let cases = [
        (&it, vec![intended(anchor.clone())], observed(absent), "the anchor was not seen"),
        (&it, vec![seen(name.clone(), "c")], observed(absent), "no anchor is recorded"),
        (&leaving, vec![intended(name.clone())], observed(UP), "the object was not seen"),
        (&leaving, vec![seen(anchor.clone(), "a")], observed(UP), "an anchor is no object"),
        (&leaving, vec![seen(name.clone(), "c")], unread, "nobody knows the revision"),
        (&leaving, vec![intended(anchor)], observed(absent), "the anchor was not seen"),
        (&leaving, vec![seen(name, "c")], observed(absent), "an object is no anchor"),
    ];
    for (it, rows, seen, why) in cases {
        assert_eq!(decide(it, &rows, &seen).2, None, "{why}");
    }
}

#[test]
fn the_last_user_makes_it_leave_and_only_then_it_is_asked_to_go() {
    let it = config(|it| {
        it.phase = Phase::Ready;
        it.users = 0;
    });
    let rows = [seen(it.anchor_name(G1), "a"), seen(it.config_name(G1), "c")];
    let expected = (out(G1), vec![], None, Wake::Now, Reason::NoUsers);
    assert_eq!(decide(&it, &rows, &observed(UP)), expected, "committed first");
    let used = config(|it| it.phase = Phase::Ready);
    let expected = (used.clone(), vec![], None, Wake::OnChange, Reason::Steady);
    assert_eq!(decide(&used, &rows, &observed(UP)), expected, "somebody uses it");
}

#[test]
fn it_is_gone_when_every_row_is_settled_and_a_new_user_starts_a_new_generation() {
    let it = out(G1);
    let open = [seen(it.config_name(G1), "c")];
    let settled = [gone(it.config_name(G1), "c")];
    let expected = (it.clone(), vec![], None, soon(), Reason::UnsettledRows);
    assert_eq!(decide(&it, &open, &observed(NOTHING)), expected);
    let away = ProviderConfig { phase: Phase::Gone, ..it.clone() };
    let expected = (away, vec![], None, Wake::OnChange, Reason::Gone);
    assert_eq!(decide(&it, &settled, &observed(NOTHING)), expected);
    let next = config(|it| it.generation = G2);
    let rows = next.intended("usher", NOW);
    let expected = (next, rows, None, Wake::Now, Reason::GenerationReplaced);
    assert_eq!(decide(&it.joined(), &settled, &observed(NOTHING)), expected);
}

#[test]
fn what_was_seen_is_recorded_with_the_decision() {
    let it = out(G1);
    let rows = [intended(it.config_name(G1))];
    let sightings = vec![Sighting {
        name: it.config_name(G1),
        answer: Answer::Absent { settled: true },
        by: "cluster".to_owned(),
        at: NOW,
    }];
    let seen = Observed { sightings, ..observed(NOTHING) };
    let changed = Book::new(rows.to_vec()).absorb(&seen.sightings);
    assert_eq!(changed.len(), 1);
    let away = ProviderConfig { phase: Phase::Gone, ..it.clone() };
    let expected = (away, changed, None, Wake::OnChange, Reason::Gone);
    assert_eq!(decide(&it, &rows, &seen), expected);
}
