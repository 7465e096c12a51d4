//! `usher fleet plan`: what the next planning cycle of a shard would do; it changes nothing.

use std::fmt::Write as _;

use usher_wire::operator::{Aim, ClusterStatus, FleetPlan, NeedStatus};

use super::{chosen, need};
use crate::client::encoded;
use crate::console::{cell, table};
use crate::error::CliError;
use crate::session::Session;

pub(super) async fn plan(session: Session, said: Option<String>) -> Result<(), CliError> {
    let shard = chosen(&session, said).await?;
    let path = format!("/v1/fleet/shards/{}/plan", encoded(&shard));
    let plan: FleetPlan = session.client.read(&path).await?;
    session.console.one(&plan, || shown(&plan))
}

fn shown(plan: &FleetPlan) -> String {
    let FleetPlan { shard, machines, broken, aims, aims_total, .. } = plan;
    let mut out = format!("shard {} has {machines} machines\n", shard.id);
    // Writing to a String cannot fail.
    if *broken > 0 {
        let _ = writeln!(out, "{broken} rows cannot be decoded and are left out");
    }
    if !plan.held_back.is_empty() {
        let _ = writeln!(out, "Held back by {}", plan.held_back.join(", "));
    }
    let outcomes = plan.outcomes.iter().filter(|(_, many)| **many > 0);
    let outcomes: Vec<String> = outcomes.map(|(word, many)| format!("{many} {word}")).collect();
    if !outcomes.is_empty() {
        let _ = writeln!(out, "Needs: {}", outcomes.join(", "));
    }
    if !plan.needs.is_empty() {
        let rows: Vec<_> = plan.needs.iter().map(unmet).collect();
        let _ = write!(out, "\n{}", table(&["CLUSTER", "OUTCOME", "NEED"], &rows));
    }
    let held: Vec<_> = plan.clusters.iter().filter(|it| it.surplus > 0).map(surplus).collect();
    if !held.is_empty() {
        let heads = ["CLUSTER", "SURPLUS", "RECLAIMED", "HELD BACK"];
        let _ = write!(out, "\n{}", table(&heads, &held));
    }
    if *aims_total == 0 {
        out.push_str("No machine would change\n");
        return out;
    }
    let rows: Vec<_> = aims.iter().map(aim).collect();
    let _ = write!(out, "\n{}", table(&["MACHINE", "PHASE", "WANTED", "CLUSTER", "CAUSE"], &rows));
    let printed = u64::try_from(aims.len()).unwrap_or(u64::MAX);
    if printed < *aims_total {
        let _ = writeln!(out, "and {} more", aims_total - printed);
    }
    out
}

fn aim(it: &Aim) -> Vec<String> {
    vec![
        it.name.clone(),
        it.phase.clone(),
        it.wanted.clone(),
        cell(it.cluster.as_deref()),
        it.cause.clone(),
    ]
}

fn unmet(it: &NeedStatus) -> Vec<String> {
    let need = it.need.as_ref().map(need::written);
    vec![it.cluster.clone(), it.outcome.clone(), cell(need.as_deref())]
}

fn surplus(it: &ClusterStatus) -> Vec<String> {
    vec![
        it.cluster.clone(),
        it.surplus.to_string(),
        it.reclaimed.to_string(),
        cell(it.held_back.as_deref()),
    ]
}
