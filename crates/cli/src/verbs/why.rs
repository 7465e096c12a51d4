//! `usher why`: the phase of a resource or a machine, what blocks it, and what to do.

use std::fmt::Write as _;
use std::process::ExitCode;

use usher_wire::operator::{Advice, Blocker, Machine, MachineWhy, Resource, Why};

use super::OneResource;
use super::fleet::machine;
use crate::console::age;
use crate::error::CliError;
use crate::session::{Session, run as session};

/// The prefix that selects a machine.
const MACHINE: &str = "machine/";

pub(super) fn run(about: OneResource) -> ExitCode {
    session(&about.basics.clone(), |it| why(it, about))
}

async fn why(session: Session, about: OneResource) -> Result<(), CliError> {
    if let Some(name) = about.resource.strip_prefix(MACHINE) {
        let found = machine(&session, name).await?;
        let path = format!("/v1/fleet/machines/{}/why", found.id);
        let why: MachineWhy = session.client.read(&path).await?;
        return session.console.one(&why, || render_machine(&why));
    }
    let found = about.find(&session).await?;
    let why: Why = session.client.read(&format!("/v1/resources/{}/why", found.id)).await?;
    session.console.one(&why, || render(&why))
}

/// The blockers, one line each.
fn held(blockers: &[Blocker]) -> String {
    let lines = blockers.iter().map(|it| {
        let since = it.since.as_deref().map(|at| format!(", for {}", age(at))).unwrap_or_default();
        format!("  {} \"{}\": {}{since}\n", it.kind, it.name, it.text)
    });
    lines.collect()
}

fn render(why: &Why) -> String {
    let Why { resource, summary, blockers, advice, attempts, next_reconcile_at, parked, trouble } =
        why;
    let Resource { name, phase, reason, phase_since, .. } = resource;
    let reason = reason.as_deref().unwrap_or("not reconciled yet");
    let mut out = format!("{name} is {phase} ({reason}) for {}\n{summary}\n", age(phase_since));
    // Writing to a String cannot fail.
    if let Some(trouble) = trouble {
        let _ = writeln!(out, "The last step failed, attempt {attempts}: {trouble}");
    }
    if *parked {
        out.push_str("Parked: not reconciled again before `usher retry`\n");
    } else if let Some(at) = next_reconcile_at {
        let _ = writeln!(out, "Next reconcile at {at}");
    }
    out + &blocked(blockers) + &advised(advice)
}

fn render_machine(why: &MachineWhy) -> String {
    let MachineWhy { machine, summary, blockers, advice, deadline } = why;
    let Machine { name, phase, reason, phase_since, .. } = machine;
    let mut out = format!("{name} is {phase} ({reason}) for {}\n{summary}\n", age(phase_since));
    if let Some(at) = deadline {
        let _ = writeln!(out, "Deadline {at}");
    }
    out + &blocked(blockers) + &advised(advice)
}

/// The blockers under their heading, if there are any.
pub(super) fn blocked(blockers: &[Blocker]) -> String {
    if blockers.is_empty() { String::new() } else { format!("Blocked by\n{}", held(blockers)) }
}

fn advised(advice: &[Advice]) -> String {
    let entries = advice.iter().map(|it| {
        let Advice { symptom, diagnosis, remedy } = it;
        format!("\nSymptom    {symptom}\nDiagnosis  {diagnosis}\nRemedy     {remedy}\n")
    });
    entries.collect()
}
