//! Domain types rendered as wire types.

use usher_domain::broker::aggregate::Resource;
use usher_kernel::{Name, Row, Timestamp};
use usher_wire::operator as wire;

use crate::views::{
    Advice, Blocker, GuardView, LogEntry, Orphan, Plan, PlanStep, Receipt, ResourceView, Subject,
    Why,
};

pub(crate) fn time(at: Timestamp) -> String {
    at.to_rfc3339()
}

pub(crate) fn maybe(at: Option<Timestamp>) -> Option<String> {
    at.map(time)
}

pub(crate) fn resource(view: &ResourceView) -> wire::Resource {
    let row: &Resource = &view.resource;
    let fields = row.fields();
    let (blueprint, version) = match &view.blueprint {
        Some((name, version)) => (Some(name.to_string()), Some(version.clone())),
        None => (None, None),
    };
    wire::Resource {
        id: fields.id.to_string(),
        name: fields.name.clone(),
        project: view.project.to_string(),
        project_id: fields.project.to_string(),
        phase: fields.phase.to_string(),
        reason: view.reason.map(|it| it.to_string()),
        generation: fields.generation.0.into(),
        version: view.version.0,
        blueprint,
        blueprint_version: version,
        credential: view.credential.as_ref().map(ToString::to_string),
        parameters: serde_json::to_value(&fields.pinned.parameters).unwrap_or_default(),
        world: fields.pinned.world.clone(),
        namespace: fields.pinned.namespace.clone(),
        tenancy: fields.tenancy.to_string(),
        created_at: time(fields.created_at),
        updated_at: time(fields.updated_at),
        phase_since: time(fields.phase_since),
        deletion_requested_at: maybe(fields.deletion_requested_at),
        outcome: fields.outcome.map(|it| it.to_string()),
        node: view.node.map(|it| it.as_str().to_owned()),
    }
}

pub(crate) fn why(why: &Why) -> wire::Why {
    wire::Why {
        resource: resource(&why.resource),
        summary: why.summary.clone(),
        blockers: why.blockers.iter().map(blocker).collect(),
        advice: why.advice.iter().map(advice).collect(),
        attempts: why.attempts,
        next_reconcile_at: maybe(why.next_reconcile_at),
        parked: why.parked,
        trouble: why.trouble.clone(),
    }
}

pub(crate) fn blocker(it: &Blocker) -> wire::Blocker {
    wire::Blocker {
        kind: it.kind.clone(),
        name: it.name.clone(),
        since: maybe(it.since),
        text: it.text.clone(),
    }
}

pub(crate) fn advice(it: &Advice) -> wire::Advice {
    wire::Advice {
        symptom: it.symptom.clone(),
        diagnosis: it.diagnosis.clone(),
        remedy: it.remedy.clone(),
    }
}

pub(crate) fn plan(plan: &Plan) -> wire::Plan {
    wire::Plan {
        resource: resource(&plan.resource),
        steps: plan.steps.iter().map(step).collect(),
        blockers: plan.blockers.iter().map(blocker).collect(),
    }
}

fn step(it: &PlanStep) -> wire::PlanStep {
    wire::PlanStep {
        phase: it.phase.to_string(),
        reason: it.reason.to_string(),
        effect: it.effect.map(|it| it.to_string()),
        name: it.name.as_ref().map(name),
    }
}

fn name(it: &Name) -> wire::Name {
    wire::Name {
        kind: it.kind.clone(),
        place: it.place.clone(),
        name: it.name.clone(),
        generation: it.generation.0.into(),
    }
}

fn row(it: &Row) -> wire::ReceiptRow {
    wire::ReceiptRow {
        name: name(&it.name),
        incarnation: it.incarnation,
        state: it.state.as_str().to_owned(),
        uid: it.uid.as_ref().map(|it| it.0.clone()),
        evidence: wire::Evidence {
            by: it.evidence.by.clone(),
            answer: it.evidence.answer.clone(),
            at: time(it.evidence.at),
        },
    }
}

pub(crate) fn receipt(receipt: &Receipt) -> wire::Receipt {
    let provider_config = receipt.provider_config.as_ref().map(|(id, rows)| wire::SharedConfig {
        id: id.to_string(),
        rows: rows.iter().map(row).collect(),
    });
    wire::Receipt {
        resource: resource(&receipt.resource),
        settled: receipt.rows.iter().all(|it| it.state.is_settled()),
        rows: receipt.rows.iter().map(row).collect(),
        provider_config,
        key_id: String::new(),
        mac: String::new(),
    }
}

pub(crate) fn orphan(it: &Orphan) -> wire::Orphan {
    wire::Orphan {
        world: it.world.clone(),
        kind: it.kind.clone(),
        place: it.place.clone(),
        name: it.name.clone(),
        uid: it.uid.clone(),
        resource: it.resource.map(|it| it.to_string()),
        cause: it.cause.clone(),
        reapable: it.reapable,
    }
}

pub(crate) fn guard(it: &GuardView) -> wire::Guard {
    wire::Guard {
        world: it.world.clone(),
        tripped_at: maybe(it.tripped_at),
        vanished: it.vanished,
        present: it.present,
    }
}

pub(crate) fn event(entry: &LogEntry) -> wire::Event {
    let (resource, machine, project) = match entry.subject {
        Subject::Resource(id, project) => (Some(id), None, Some(project)),
        Subject::Machine(id) => (None, Some(id), None),
    };
    wire::Event {
        id: entry.id.to_string(),
        kind: entry.event_type.to_owned(),
        resource: resource.map(|it| it.to_string()),
        machine: machine.map(|it| it.to_string()),
        project: project.map(|it| it.to_string()),
        version: entry.version.0,
        occurred_at: time(entry.occurred_at),
        data: entry.data.clone(),
    }
}
