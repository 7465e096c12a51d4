//! The plan of a deletion: the rules of the reconciler, simulated on a snapshot.

use usher_api::ports::Answer;
use usher_api::views::{Plan, PlanStep};
use usher_domain::broker::aggregate::{KIND_PEER, Resource};
use usher_domain::broker::command::{self, Outstanding};
use usher_domain::broker::facts::{
    Anchor, Composed, Facts, Finalization, Node, Protection, RowFacts, Xr,
};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reconcile::rules;
use usher_domain::broker::verdict::{EffectKind, Verdict};
use usher_domain::object::id::ResourceId;
use usher_kernel::{Name, NameLedger, Record};

use super::{Services, failure, unavailable};

/// An upper bound of the steps of a deletion.
const STEPS_MAX: usize = 64;

impl Services {
    /// The remaining steps of a deletion, and what blocks it.
    pub(super) async fn plan(&self, id: ResourceId) -> Answer<Plan> {
        let record = self.record(id).await?;
        let now = self.store.now().await.map_err(failure)?;
        let outstanding =
            Outstanding { may_act_until: None, request_bound: std::time::Duration::ZERO };
        let wished = command::deprovision(&record.state, &outstanding, now).next;
        let wished = Record { state: wished, ..record.clone() };
        let world = self.worlds.get(&wished.state.pinned().world).map_err(unavailable)?;
        let seen = world.observe(&wished).await.map_err(unavailable)?;
        let name_ledger = record.name_ledger.with(&record.name_ledger.absorb(&seen.sightings));
        let steps =
            play(&wished.state, &name_ledger, (wished.state.facts(&name_ledger, now), seen.facts));
        let resource = self.view(&record).await?;
        let explained = self.explanation(&record.state).await;
        let blockers = self.blockers(&record, &explained).await?;
        Ok(Plan { resource, steps, blockers })
    }
}

/// Simulates the rules to the end; every effect and every wait succeeds.
fn play(
    resource: &Resource,
    name_ledger: &NameLedger,
    (row, seen): (RowFacts, Facts),
) -> Vec<PlanStep> {
    let (mut row, mut seen) = (row, seen);
    let mut steps: Vec<PlanStep> = Vec::new();
    while steps.len() < STEPS_MAX {
        let verdict = rules(row, seen);
        let step = PlanStep {
            phase: verdict.phase,
            reason: verdict.reason,
            effect: verdict.effect,
            name: verdict.effect.and_then(|it| named(it, resource, name_ledger)),
        };
        if steps.last() != Some(&step) {
            steps.push(step);
        }
        let before = (row, seen);
        row.phase = verdict.phase;
        (row, seen) = granted(row, seen, verdict);
        if verdict.phase == Phase::Deleted || before == (row, seen) {
            break;
        }
    }
    steps
}

/// The facts after the effect or the wait of the verdict has succeeded.
fn granted(mut row: RowFacts, mut seen: Facts, verdict: Verdict) -> (RowFacts, Facts) {
    match verdict.effect {
        Some(EffectKind::DeregisterNode) => seen.node = Node::Left,
        Some(EffectKind::ReleaseProtection) => seen.protection = Protection::None,
        Some(EffectKind::DeleteSubstrate) => seen.xr = Xr::Deleting,
        Some(EffectKind::DeleteAnchor) => seen.anchor = Anchor::Absent,
        Some(EffectKind::CreateAnchor | EffectKind::IssueToken | EffectKind::Apply) => {}
        None => match (seen.xr, seen.composed) {
            (_, Composed::Unrecorded) => seen.composed = Composed::Present,
            (Xr::Deleting, _) => seen.xr = Xr::Absent,
            (Xr::Absent | Xr::Foreign, Composed::Present) => seen.composed = Composed::None,
            _ if row.finalization != Finalization::Settled && is_clear(seen) => {
                row.finalization = Finalization::Settled;
            }
            _ => {}
        },
    }
    (row, seen)
}

/// Whether the substrate and all composed resources are gone.
fn is_clear(seen: Facts) -> bool {
    let gone = matches!(seen.xr, Xr::Absent | Xr::Foreign);
    gone && seen.composed == Composed::None
}

/// The name that an effect acts on.
fn named(kind: EffectKind, resource: &Resource, name_ledger: &NameLedger) -> Option<Name> {
    let generation = resource.generation();
    let seen =
        |wanted: &dyn Fn(&Name) -> bool| name_ledger.first_seen(wanted).map(|row| row.name.clone());
    match kind {
        EffectKind::DeregisterNode => seen(&|name| name.kind == KIND_PEER),
        EffectKind::ReleaseProtection | EffectKind::DeleteSubstrate | EffectKind::Apply => {
            seen(&|name| *name == resource.xr_name(name.generation))
        }
        EffectKind::DeleteAnchor => seen(&|name| *name == resource.anchor_name(name.generation)),
        EffectKind::CreateAnchor => Some(resource.anchor_name(generation)),
        EffectKind::IssueToken => Some(resource.token_name(generation)),
    }
}
