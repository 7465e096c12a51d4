//! A world under test, with access from outside, and how it is worked with.

#![expect(clippy::expect_used, clippy::panic, reason = "a broken promise fails the test")]

use std::time::Duration;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::event::Event;
use usher_domain::broker::facts::{Anchor, Facts, Xr};
use usher_domain::broker::observe::Observed;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::reason::Reason;
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::render::anchor::is_anchor;
use usher_domain::broker::tombstone::Tombstone;
use usher_kernel::{
    Answer, Decision, Ledger, Name, Record, Timestamp, Trouble, Uid, Wake, World, step,
};

/// How many moments are waited for something that must happen.
pub(super) const POLLS_MAX: usize = 2_000;

/// What other clients do to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// Puts an object of their own under a name.
    TakeName(Name),
    /// Removes the object of this name.
    Remove(Name),
    /// Puts another, empty world in its place.
    Rebuild,
    /// Brings an older, empty state of the same world back.
    Forget,
    /// Makes the world unreachable.
    Hide,
    /// Undoes the last three.
    Restore,
}

/// A world under test, its ledger, and access from outside.
pub trait TestWorld:
    World<Broker>
    + World<Tombstone>
    + World<provider_config::ProviderConfigReconciler>
    + Ledger<Broker>
    + Ledger<Tombstone>
    + Ledger<provider_config::ProviderConfigReconciler>
{
    /// The clock.
    fn now(&self) -> Timestamp;

    /// Lets some time pass in the world.
    fn pass(&self) -> impl Future<Output = ()>;

    /// The resource that was declared.
    fn resource(&self) -> Record<Resource>;

    /// Its ProviderConfig.
    fn config(&self) -> Record<ProviderConfig>;

    /// The events of the resource since it was declared.
    fn events(&self) -> Vec<Event>;

    /// Lets the node of the current generation enrol, if it can.
    fn enrol(&self) -> impl Future<Output = ()>;

    /// Asks for the deletion of the resource.
    fn retire(&self) -> impl Future<Output = ()>;

    /// Whether the watch reported a change of the resource since the last call.
    fn was_woken(&self) -> impl Future<Output = bool>;

    /// Another client's deed.
    fn meddle(&self, meddling: Meddling) -> impl Future<Output = ()>;
}

/// Runs steps of a resource until it is where it should be.
pub(super) async fn walk(
    world: &impl TestWorld,
    where_to: &str,
    arrived: impl Fn(&Resource) -> bool,
) {
    let work_item = Broker { interval: Duration::from_millis(1), ..Broker::default() };
    for _ in 0..POLLS_MAX {
        let _ =
            step(&provider_config::ProviderConfigReconciler::default(), world, world, world.now())
                .await;
        let _ = step(&work_item, world, world, world.now()).await;
        world.enrol().await;
        let record = world.resource();
        if arrived(&record.state) {
            return;
        }
        world.pass().await;
    }
    let record = world.resource();
    panic!("never {where_to}: {:?} {:?}", record.state.phase(), record.name_ledger.rows());
}

pub(super) async fn config_walks(world: &impl TestWorld, phase: provider_config::Phase) {
    for _ in 0..POLLS_MAX {
        let _ =
            step(&provider_config::ProviderConfigReconciler::default(), world, world, world.now())
                .await;
        if world.config().state.phase == phase {
            return;
        }
        world.pass().await;
    }
    panic!("the ProviderConfig is never {phase}");
}

/// An anchor and a ready substrate, all of it recorded; the anchor's uid.
pub(super) async fn stand(world: &impl TestWorld) -> Uid {
    let anchor = anchored(world).await;
    create_xr(world, &anchor).await.expect("a create is done");
    until(world, "the substrate becomes ready", |seen| seen.xr == Xr::Ready).await;
    anchor
}

pub(super) async fn anchored(world: &impl TestWorld) -> Uid {
    create_anchor(world).await.expect("a create is done");
    until(world, "the anchor exists", |seen| seen.anchor == Anchor::Ours).await;
    uid(world, &anchor_name(world)).await.expect("the anchor exists")
}

pub(super) async fn until(world: &impl TestWorld, what: &str, holds: impl Fn(&Facts) -> bool) {
    for _ in 0..POLLS_MAX {
        if holds(&record_snapshot(world).await.facts) {
            return;
        }
        world.pass().await;
    }
    panic!("it never happens that {what}: {:?}", snapshot(world).await.facts);
}

pub(super) async fn settle(world: &impl TestWorld, moments: usize) {
    for _ in 0..moments {
        world.pass().await;
    }
}

pub(super) async fn woken(world: &impl TestWorld, by: &str) {
    for _ in 0..POLLS_MAX {
        if world.was_woken().await {
            return;
        }
        world.pass().await;
    }
    panic!("nothing is woken by {by}");
}

pub(super) async fn snapshot(world: &impl TestWorld) -> Observed {
    World::<Broker>::observe(world, &world.resource()).await.expect("the world answers")
}

/// Takes a snapshot, and records what was seen as a step would, deciding nothing.
pub(super) async fn record_snapshot(world: &impl TestWorld) -> Observed {
    let record = world.resource();
    if let Ok(seen) = World::<Broker>::observe(world, &record).await {
        let rows = record.name_ledger.absorb(&seen.sightings);
        let decision = Decision::<Broker> {
            next: record.state,
            rows,
            effect: None,
            event: None,
            wake: Wake::OnChange,
            reason: Reason::AsDeclared,
        };
        let _ = Ledger::<Broker>::commit(world, record.version, &decision).await;
    }
    snapshot(world).await
}

pub(super) async fn uid(world: &impl TestWorld, name: &Name) -> Option<Uid> {
    match answer(&record_snapshot(world).await, name) {
        Some(Answer::Present { uid, ours: true }) => Some(uid),
        Some(
            Answer::Present { ours: false, .. }
            | Answer::Absent { .. }
            | Answer::Announced
            | Answer::Unknown(_),
        )
        | None => None,
    }
}

/// How many objects of ours this snapshot saw, the anchor aside.
pub(super) fn standing_parts(seen: &Observed) -> usize {
    let ours = seen.sightings.iter().filter(|it| !is_anchor(&it.name));
    ours.filter(|it| matches!(it.answer, Answer::Present { ours: true, .. })).count()
}

pub(super) fn answer(seen: &Observed, name: &Name) -> Option<Answer> {
    seen.sightings.iter().rev().find(|it| it.name == *name).map(|it| it.answer.clone())
}

/// The composed names on record.
pub(super) fn parts(world: &impl TestWorld) -> Vec<Name> {
    let record = world.resource();
    let it = &record.state;
    let is_own = |name: &Name| {
        let generation = name.generation;
        [
            it.anchor_name(generation),
            it.xr_name(generation),
            it.token_name(generation),
            it.peer_name(generation),
        ]
        .contains(name)
    };
    let names = record.name_ledger.rows().iter().map(|row| row.name.clone());
    names.filter(|name| !is_own(name)).collect()
}

pub(super) fn anchor_name(world: &impl TestWorld) -> Name {
    let it = world.resource().state;
    it.anchor_name(it.generation())
}

pub(super) fn xr_name(world: &impl TestWorld) -> Name {
    let it = world.resource().state;
    it.xr_name(it.generation())
}

pub(super) async fn create_anchor(world: &impl TestWorld) -> Result<(), Trouble> {
    perform(world, Effect::CreateAnchor { anchor: anchor_name(world) }).await
}

pub(super) async fn create_xr(world: &impl TestWorld, anchor: &Uid) -> Result<(), Trouble> {
    let (xr, anchor) = (xr_name(world), anchor.clone());
    perform(world, Effect::Apply { xr, uid: None, anchor }).await
}

pub(super) async fn apply_xr(
    world: &impl TestWorld,
    anchor: &Uid,
    uid: Uid,
) -> Result<(), Trouble> {
    let (xr, anchor) = (xr_name(world), anchor.clone());
    perform(world, Effect::Apply { xr, uid: Some(uid), anchor }).await
}

pub(super) async fn delete_xr(world: &impl TestWorld, uid: &Uid) -> Result<(), Trouble> {
    perform(world, Effect::DeleteSubstrate { xr: xr_name(world), uid: uid.clone() }).await
}

pub(super) async fn delete_anchor(world: &impl TestWorld, uid: &Uid) -> Result<(), Trouble> {
    perform(world, Effect::DeleteAnchor { anchor: anchor_name(world), uid: uid.clone() }).await
}

pub(super) async fn perform(world: &impl TestWorld, effect: Effect) -> Result<(), Trouble> {
    World::<Broker>::apply(world, &world.resource(), &effect).await
}
