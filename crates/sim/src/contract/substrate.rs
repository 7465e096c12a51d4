//! What every world promises that a substrate can live in.
//!
//! Each promise begins with a fresh stage and panics with a sentence if it is broken. A world may
//! be slow and may refuse; it may not take a failed question for absence, touch what another
//! owns, or forget what it composed.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken promise fails the test"
)]

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::event::{Event, EventType, Outcome};
use usher_domain::broker::facts::{Anchor, Composed, Xr};
use usher_domain::broker::observe::Observed;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config;
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::tombstone::Tombstone;
use usher_kernel::{Answer, Generation, NameState, Record, Trouble, Uid, Visibility, World, step};

pub use super::test_world::{Meddling, TestWorld};
use super::test_world::{
    POLLS_MAX, anchor_name, anchored, answer, apply_xr, config_walks, create_anchor, create_xr,
    delete_anchor, delete_xr, parts, record_snapshot, settle, snapshot, stand, standing_parts, uid,
    until, walk, woken, xr_name,
};

/// How many moments are waited for something that must not happen.
const DOUBT: usize = 20;

/// Nothing exists before anything was made, and the answer is a positive one.
pub async fn a_name_that_was_never_used_is_absent(world: &impl TestWorld) {
    let seen = snapshot(world).await;
    let nothing = (Anchor::Absent, Xr::Absent, Composed::None, Visibility::Complete);
    let facts = seen.facts;
    assert_eq!((facts.anchor, facts.xr, facts.composed, facts.visibility), nothing);
}

/// A create is done once; a repetition finds its own work.
pub async fn a_create_may_be_repeated_and_makes_one_object(world: &impl TestWorld) {
    let anchor = anchored(world).await;
    create_anchor(world).await.expect("a repeated create is done");
    assert_eq!(uid(world, &anchor_name(world)).await, Some(anchor.clone()));
    create_xr(world, &anchor).await.expect("a create is done");
    let xr = uid(world, &xr_name(world)).await;
    assert!(xr.is_some(), "the substrate exists");
    create_xr(world, &anchor).await.expect("a repeated create is done");
    assert_eq!(uid(world, &xr_name(world)).await, xr);
}

/// A taken name is reported as such, and the other owner's object is not touched.
pub async fn a_name_that_is_taken_is_foreign_and_left_alone(world: &impl TestWorld) {
    let name = anchor_name(world);
    world.meddle(Meddling::TakeName(name.clone())).await;
    let refused = create_anchor(world).await;
    assert!(matches!(refused, Err(Trouble::Blocked { .. })), "{refused:?}");
    assert_eq!(snapshot(world).await.facts.anchor, Anchor::Foreign);
    let answer = answer(&snapshot(world).await, &name);
    let Some(Answer::Present { uid, ours: false }) = answer else { panic!("{answer:?}") };
    settle(world, DOUBT).await;
    let again = super::test_world::answer(&snapshot(world).await, &name);
    assert_eq!(again, Some(Answer::Present { uid, ours: false }), "it was not touched");
}

/// The same for a substrate.
pub async fn a_substrate_whose_name_is_taken_is_foreign(world: &impl TestWorld) {
    let anchor = anchored(world).await;
    world.meddle(Meddling::TakeName(xr_name(world))).await;
    let refused = create_xr(world, &anchor).await;
    assert!(matches!(refused, Err(Trouble::Blocked { .. })), "{refused:?}");
    assert_eq!(snapshot(world).await.facts.xr, Xr::Foreign);
}

/// An apply names the object that was seen, and never makes one.
pub async fn an_apply_needs_the_object_that_was_seen(world: &impl TestWorld) {
    let anchor = anchored(world).await;
    let missing = apply_xr(world, &anchor, Uid::new("u999")).await;
    assert!(missing.is_err(), "nothing was seen under that uid");
    settle(world, DOUBT).await;
    assert_eq!(snapshot(world).await.facts.xr, Xr::Absent, "an apply creates nothing");
    create_xr(world, &anchor).await.expect("a create is done");
    let other = apply_xr(world, &anchor, Uid::new("u999")).await;
    assert!(matches!(other, Err(Trouble::Blocked { .. })), "{other:?}");
    let seen = uid(world, &xr_name(world)).await.expect("the substrate exists");
    apply_xr(world, &anchor, seen.clone()).await.expect("an apply onto what was seen is done");
    assert_eq!(uid(world, &xr_name(world)).await, Some(seen));
}

/// What is created under an anchor that is gone is refused or disappears by itself.
pub async fn nothing_stays_under_an_anchor_that_is_gone(world: &impl TestWorld) {
    let anchor = anchored(world).await;
    delete_anchor(world, &anchor).await.expect("a deletion is done");
    until(world, "the anchor is gone", |seen| seen.anchor == Anchor::Absent).await;
    let late = create_xr(world, &anchor).await;
    until(world, "a late create leaves no substrate", |seen| seen.xr == Xr::Absent).await;
    for _ in 0..POLLS_MAX {
        if standing_parts(&record_snapshot(world).await) == 0 {
            settle(world, DOUBT).await;
            let seen = snapshot(world).await;
            assert_eq!((seen.facts.xr, standing_parts(&seen)), (Xr::Absent, 0), "{late:?}");
            return;
        }
        world.pass().await;
    }
    panic!("a part exists under an anchor that is gone");
}

/// What exists under an anchor is deleted with it, parts and all.
pub async fn what_stands_under_an_anchor_goes_with_it(world: &impl TestWorld) {
    let anchor = stand(world).await;
    delete_anchor(world, &anchor).await.expect("a deletion is done");
    until(world, "all of it is gone", |seen| {
        (seen.anchor, seen.xr, seen.composed) == (Anchor::Absent, Xr::Absent, Composed::None)
    })
    .await;
}

/// A deletion names its object, and is done if there is none.
pub async fn a_deletion_names_its_object(world: &impl TestWorld) {
    let anchor = stand(world).await;
    let xr = uid(world, &xr_name(world)).await.expect("the substrate exists");
    let other = Uid::new("u999");
    let refused = delete_xr(world, &other).await;
    assert!(matches!(refused, Err(Trouble::Blocked { .. })), "{refused:?}");
    let refused = delete_anchor(world, &other).await;
    assert!(matches!(refused, Err(Trouble::Blocked { .. })), "{refused:?}");
    settle(world, DOUBT).await;
    assert_eq!(uid(world, &xr_name(world)).await, Some(xr.clone()));
    assert_eq!(uid(world, &anchor_name(world)).await, Some(anchor));
    delete_xr(world, &xr).await.expect("a deletion is done");
    until(world, "the substrate is gone", |seen| seen.xr == Xr::Absent).await;
    delete_xr(world, &xr).await.expect("what is gone may be deleted again");
}

/// A substrate says what it composes before it is ready, and each part is found by its name.
pub async fn a_substrate_says_what_it_composed(world: &impl TestWorld) {
    stand(world).await;
    let parts = parts(world);
    assert!(!parts.is_empty(), "a substrate that is ready is composed of something");
    let seen = snapshot(world).await;
    for name in parts {
        let answer = answer(&seen, &name);
        assert!(matches!(answer, Some(Answer::Present { ours: true, .. })), "{name:?} {answer:?}");
    }
}

/// After a deletion every part that was recorded is found until it is gone, and then is absent.
pub async fn a_deletion_ends_with_every_part_gone(world: &impl TestWorld) {
    stand(world).await;
    let recorded = parts(world);
    let xr = uid(world, &xr_name(world)).await.expect("the substrate exists");
    delete_xr(world, &xr).await.expect("a deletion is done");
    for _ in 0..POLLS_MAX {
        let seen = record_snapshot(world).await;
        let all_absent = recorded
            .iter()
            .all(|it| matches!(answer(&seen, it), None | Some(Answer::Absent { .. })));
        if seen.facts.xr == Xr::Absent && seen.facts.composed == Composed::None {
            assert!(all_absent, "a part exists that is not reported");
            return;
        }
        world.pass().await;
    }
    panic!("the parts never go");
}

/// What another client removed is seen to be absent, and its record is woken.
pub async fn what_was_taken_away_is_absent_and_wakes_its_life(world: &impl TestWorld) {
    stand(world).await;
    world.was_woken().await;
    world.meddle(Meddling::Remove(xr_name(world))).await;
    woken(world, "a disappearance").await;
    until(world, "it is seen to be gone", |seen| seen.xr == Xr::Absent).await;
}

/// Whatever changes wakes the record whose label it carries.
pub async fn a_change_wakes_its_life(world: &impl TestWorld) {
    let anchor = anchored(world).await;
    woken(world, "an anchor that came").await;
    create_xr(world, &anchor).await.expect("a create is done");
    woken(world, "a substrate that came").await;
    // What was read already may have reported that, too.
    if snapshot(world).await.facts.xr != Xr::Ready {
        woken(world, "a substrate that became ready").await;
    }
}

/// Another world in its place proves nothing gone.
pub async fn another_world_proves_no_absence(world: &impl TestWorld) {
    nothing_is_gone_in(world, Meddling::Rebuild).await;
}

/// A world that lost its memory proves nothing gone.
pub async fn a_world_that_forgot_proves_no_absence(world: &impl TestWorld) {
    nothing_is_gone_in(world, Meddling::Forget).await;
}

/// A world that does not answer is not an empty one.
pub async fn a_world_that_does_not_answer_is_not_empty(world: &impl TestWorld) {
    stand(world).await;
    world.meddle(Meddling::Hide).await;
    let record = world.resource();
    let seen = World::<Broker>::observe(world, &record).await;
    if let Ok(seen) = seen {
        assert_ne!(seen.facts.visibility, Visibility::Complete);
        assert_no_absence(&record, &seen);
    }
    world.meddle(Meddling::Restore).await;
    until(world, "it answers again", |seen| seen.xr == Xr::Ready).await;
}

/// A resource is provisioned, emits `Ready` once, and is torn down with every name settled.
pub async fn a_life_walks_in_and_out(world: &impl TestWorld) {
    let ready = |it: &Resource| it.phase() == Phase::Ready;
    walk(world, "Ready", ready).await;
    let emitted = || -> Vec<EventType> {
        let events = world.events();
        let types = events.iter().map(Event::event_type);
        types.filter(|it| *it != EventType::Requested).collect()
    };
    assert_eq!(emitted(), [EventType::Ready]);
    world.retire().await;
    walk(world, "Deleted", |it| it.phase() == Phase::Deleted).await;
    assert_eq!(emitted(), [EventType::Ready, EventType::Deleting, EventType::Deleted]);
    let record = world.resource();
    assert_eq!(record.state.fields().outcome, Some(Outcome::Removed));
    let open = record.name_ledger.rows().iter().find(|row| !row.state.is_settled());
    assert_eq!(open, None, "every name is settled");
    let parts = parts(world);
    assert!(!parts.is_empty(), "what it was composed of is on record");
    config_walks(world, provider_config::Phase::Gone).await;
}

/// A vanished substrate is replaced by a new generation, and the resource is ready again.
pub async fn a_lost_substrate_is_replaced(world: &impl TestWorld) {
    walk(world, "Ready", |it| it.phase() == Phase::Ready).await;
    world.meddle(Meddling::Remove(xr_name(world))).await;
    let again = |it: &Resource| it.phase() == Phase::Ready && it.generation() == Generation(2);
    walk(world, "Ready again", again).await;
    world.retire().await;
    walk(world, "Deleted", |it| it.phase() == Phase::Deleted).await;
}

/// A tombstone removes what a late request creates.
pub async fn a_tombstone_takes_away_what_came_back(world: &impl TestWorld) {
    walk(world, "Ready", |it| it.phase() == Phase::Ready).await;
    world.retire().await;
    walk(world, "Deleted", |it| it.phase() == Phase::Deleted).await;
    world.was_woken().await;
    let anchor = world.resource().state.anchor_name(Generation::FIRST);
    let late = Effect::CreateAnchor { anchor };
    let done = World::<Broker>::apply(world, &world.resource(), &late).await;
    done.expect("a late driver is answered");
    woken(world, "what reappeared").await;
    assert_ne!(snapshot(world).await.facts.anchor, Anchor::Absent);
    for _ in 0..POLLS_MAX {
        let _ = step(&Tombstone::default(), world, world, world.now()).await;
        world.pass().await;
        if snapshot(world).await.facts.anchor == Anchor::Absent {
            return;
        }
    }
    panic!("what reappeared stays");
}

async fn nothing_is_gone_in(world: &impl TestWorld, meddling: Meddling) {
    stand(world).await;
    world.meddle(meddling).await;
    let record = world.resource();
    let seen = World::<Broker>::observe(world, &record).await.expect("it answers");
    assert_eq!(seen.facts.visibility, Visibility::ClusterReplaced);
    assert_no_absence(&record, &seen);
    world.meddle(Meddling::Restore).await;
    until(world, "the right world is believed again", |seen| seen.xr == Xr::Ready).await;
}

/// No name that was seen is reported gone.
fn assert_no_absence(record: &Record<Resource>, seen: &Observed) {
    let changed = record.name_ledger.absorb(&seen.sightings);
    let gone = changed.iter().find(|row| row.state == NameState::Gone);
    assert_eq!(gone, None, "a failed question is no absence");
}
