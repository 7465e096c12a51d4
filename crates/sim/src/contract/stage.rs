//! A world under test, with hands that reach in from outside, and how it is worked with.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a promise that is broken is told as a test tells it"
)]

use std::time::Duration;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::event::Event;
use usher_domain::broker::facts::{Anchor, Facts, Xr};
use usher_domain::broker::life::Broker;
use usher_domain::broker::observe::Observed;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::reason::Reason;
use usher_domain::broker::render::anchor::is_anchor;
use usher_domain::broker::tombstone::Tombstone;
use usher_kernel::{
    Answer, Decision, Ledger, Name, Record, Timestamp, Trouble, Uid, Wake, World, step,
};

/// How many moments are waited for something that must happen.
pub(super) const PATIENCE: usize = 2_000;

/// What other clients do to the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// Puts an object of their own under a name.
    TakeName(Name),
    /// Takes away what stands under a name.
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

/// A world under test, its ledger, and the hands that reach in from outside.
pub trait Stage:
    World<Broker>
    + World<Tombstone>
    + World<provider_config::Life>
    + Ledger<Broker>
    + Ledger<Tombstone>
    + Ledger<provider_config::Life>
{
    /// The clock.
    fn now(&self) -> Timestamp;

    /// Lets the world go on for a moment.
    fn pass(&self) -> impl Future<Output = ()>;

    /// The resource that was declared.
    fn resource(&self) -> Record<Resource>;

    /// Its ProviderConfig.
    fn config(&self) -> Record<ProviderConfig>;

    /// What was told of the resource since it was declared.
    fn events(&self) -> Vec<Event>;

    /// Lets the node of the current generation enrol, if it can.
    fn enrol(&self) -> impl Future<Output = ()>;

    /// Asks for the deletion of the resource.
    fn retire(&self) -> impl Future<Output = ()>;

    /// Whether the watch told of the resource since it was last asked.
    fn was_woken(&self) -> impl Future<Output = bool>;

    /// Another client's deed.
    fn meddle(&self, meddling: Meddling) -> impl Future<Output = ()>;
}

/// Lets a life go on until it is where it should be.
pub(super) async fn walk(stage: &impl Stage, where_to: &str, arrived: impl Fn(&Resource) -> bool) {
    let life = Broker { interval: Duration::from_millis(1), ..Broker::default() };
    for _ in 0..PATIENCE {
        let _ = step(&provider_config::Life::default(), stage, stage, stage.now()).await;
        let _ = step(&life, stage, stage, stage.now()).await;
        stage.enrol().await;
        let record = stage.resource();
        if arrived(&record.state) {
            return;
        }
        stage.pass().await;
    }
    let record = stage.resource();
    panic!("never {where_to}: {:?} {:?}", record.state.phase(), record.book.rows());
}

pub(super) async fn config_walks(stage: &impl Stage, phase: provider_config::Phase) {
    for _ in 0..PATIENCE {
        let _ = step(&provider_config::Life::default(), stage, stage, stage.now()).await;
        if stage.config().state.phase == phase {
            return;
        }
        stage.pass().await;
    }
    panic!("the ProviderConfig is never {phase}");
}

/// An anchor and a ready substrate, all of it recorded; the anchor's uid.
pub(super) async fn stand(stage: &impl Stage) -> Uid {
    let anchor = anchored(stage).await;
    create_xr(stage, &anchor).await.expect("a create is done");
    until(stage, "the substrate becomes ready", |seen| seen.xr == Xr::Ready).await;
    anchor
}

pub(super) async fn anchored(stage: &impl Stage) -> Uid {
    create_anchor(stage).await.expect("a create is done");
    until(stage, "the anchor stands", |seen| seen.anchor == Anchor::Ours).await;
    uid(stage, &anchor_name(stage)).await.expect("the anchor stands")
}

pub(super) async fn until(stage: &impl Stage, what: &str, holds: impl Fn(&Facts) -> bool) {
    for _ in 0..PATIENCE {
        if holds(&record_look(stage).await.facts) {
            return;
        }
        stage.pass().await;
    }
    panic!("it never happens that {what}: {:?}", look(stage).await.facts);
}

pub(super) async fn settle(stage: &impl Stage, moments: usize) {
    for _ in 0..moments {
        stage.pass().await;
    }
}

pub(super) async fn woken(stage: &impl Stage, by: &str) {
    for _ in 0..PATIENCE {
        if stage.was_woken().await {
            return;
        }
        stage.pass().await;
    }
    panic!("nothing is woken by {by}");
}

pub(super) async fn look(stage: &impl Stage) -> Observed {
    World::<Broker>::observe(stage, &stage.resource()).await.expect("the world answers")
}

/// Looks, and records what was seen as a step would, deciding nothing.
pub(super) async fn record_look(stage: &impl Stage) -> Observed {
    let record = stage.resource();
    if let Ok(seen) = World::<Broker>::observe(stage, &record).await {
        let rows = record.book.absorb(&seen.sightings);
        let decision = Decision::<Broker> {
            next: record.state,
            rows,
            effect: None,
            event: None,
            wake: Wake::OnChange,
            reason: Reason::AsDeclared,
        };
        let _ = Ledger::<Broker>::commit(stage, record.version, &decision).await;
    }
    look(stage).await
}

pub(super) async fn uid(stage: &impl Stage, name: &Name) -> Option<Uid> {
    match answer(&record_look(stage).await, name) {
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

/// How many objects of ours this look saw, the anchor aside.
pub(super) fn standing_parts(seen: &Observed) -> usize {
    let ours = seen.sightings.iter().filter(|it| !is_anchor(&it.name));
    ours.filter(|it| matches!(it.answer, Answer::Present { ours: true, .. })).count()
}

pub(super) fn answer(seen: &Observed, name: &Name) -> Option<Answer> {
    seen.sightings.iter().rev().find(|it| it.name == *name).map(|it| it.answer.clone())
}

/// The composed names on record.
pub(super) fn parts(stage: &impl Stage) -> Vec<Name> {
    let record = stage.resource();
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
    let names = record.book.rows().iter().map(|row| row.name.clone());
    names.filter(|name| !is_own(name)).collect()
}

pub(super) fn anchor_name(stage: &impl Stage) -> Name {
    let it = stage.resource().state;
    it.anchor_name(it.generation())
}

pub(super) fn xr_name(stage: &impl Stage) -> Name {
    let it = stage.resource().state;
    it.xr_name(it.generation())
}

pub(super) async fn create_anchor(stage: &impl Stage) -> Result<(), Trouble> {
    perform(stage, Effect::CreateAnchor { anchor: anchor_name(stage) }).await
}

pub(super) async fn create_xr(stage: &impl Stage, anchor: &Uid) -> Result<(), Trouble> {
    let (xr, anchor) = (xr_name(stage), anchor.clone());
    perform(stage, Effect::Apply { xr, uid: None, anchor }).await
}

pub(super) async fn apply_xr(stage: &impl Stage, anchor: &Uid, uid: Uid) -> Result<(), Trouble> {
    let (xr, anchor) = (xr_name(stage), anchor.clone());
    perform(stage, Effect::Apply { xr, uid: Some(uid), anchor }).await
}

pub(super) async fn delete_xr(stage: &impl Stage, uid: &Uid) -> Result<(), Trouble> {
    perform(stage, Effect::DeleteSubstrate { xr: xr_name(stage), uid: uid.clone() }).await
}

pub(super) async fn delete_anchor(stage: &impl Stage, uid: &Uid) -> Result<(), Trouble> {
    perform(stage, Effect::DeleteAnchor { anchor: anchor_name(stage), uid: uid.clone() }).await
}

pub(super) async fn perform(stage: &impl Stage, effect: Effect) -> Result<(), Trouble> {
    World::<Broker>::apply(stage, &stage.resource(), &effect).await
}
