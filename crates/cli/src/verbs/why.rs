//! `usher why`: the phase of a resource or a machine, what blocks it, and what to do.

use std::fmt::Write as _;
use std::process::ExitCode;

use usher_wire::operator::{Advice, Blocker, MachineWhy, Why};

use super::fleet::machine;
use crate::console::age;
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, run as session};

/// The prefix that selects a machine.
const MACHINE: &str = "machine/";

#[derive(clap::Args)]
pub struct Flags {
    /// Name or id of the resource; `machine/NAME` for a machine
    #[arg(value_name = "NAME|ID")]
    resource: String,
    #[command(flatten)]
    project: InProject,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| why(it, flags))
}

async fn why(session: Session, flags: Flags) -> Result<(), CliError> {
    if let Some(name) = flags.resource.strip_prefix(MACHINE) {
        let found = machine(&session, name).await?;
        let path = format!("/v1/fleet/machines/{}/why", found.id);
        let why: MachineWhy = session.client.read(&path).await?;
        let value = serde_json::to_value(&why).unwrap_or_default();
        return session.console.one(&value, || render_machine(&why));
    }
    let found = session.resource(&flags.resource, flags.project.name().as_deref()).await?;
    let why: Why = session.client.read(&format!("/v1/resources/{}/why", found.id)).await?;
    let value = serde_json::to_value(&why).unwrap_or_default();
    session.console.one(&value, || render(&why))
}

/// The blockers, one line each.
pub(super) fn held(blockers: &[Blocker]) -> String {
    let lines = blockers.iter().map(|it| {
        let since = it.since.as_deref().map(|at| format!(", for {}", age(at))).unwrap_or_default();
        format!("  {} \"{}\": {}{since}\n", it.kind, it.name, it.text)
    });
    lines.collect()
}

fn render(why: &Why) -> String {
    let Why { resource, summary, blockers, advice, attempts, next_reconcile_at, parked, trouble } =
        why;
    let reason = resource.reason.as_deref().unwrap_or("not reconciled yet");
    let mut out = format!(
        "{} is {} ({reason}) for {}\n{summary}\n",
        resource.name,
        resource.phase,
        age(&resource.phase_since)
    );
    // Writing to a String cannot fail.
    if let Some(trouble) = trouble {
        let _ = writeln!(out, "The last step failed, attempt {attempts}: {trouble}");
    }
    if *parked {
        out.push_str("Parked: not reconciled again before `usher retry`\n");
    } else if let Some(at) = next_reconcile_at {
        let _ = writeln!(out, "Next reconcile at {at}");
    }
    if !blockers.is_empty() {
        let _ = write!(out, "Blocked by\n{}", held(blockers));
    }
    out.push_str(&advised(advice));
    out
}

fn render_machine(why: &MachineWhy) -> String {
    let MachineWhy { machine: it, summary, blockers, advice, deadline } = why;
    let mut out = format!(
        "{} is {} ({}) for {}\n{summary}\n",
        it.name,
        it.phase,
        it.reason,
        age(&it.phase_since)
    );
    // Writing to a String cannot fail.
    if let Some(at) = deadline {
        let _ = writeln!(out, "Deadline {at}");
    }
    if !blockers.is_empty() {
        let _ = write!(out, "Blocked by\n{}", held(blockers));
    }
    out.push_str(&advised(advice));
    out
}

fn advised(advice: &[Advice]) -> String {
    let entries = advice.iter().map(|it| {
        let Advice { symptom, diagnosis, remedy } = it;
        format!("\nSymptom    {symptom}\nDiagnosis  {diagnosis}\nRemedy     {remedy}\n")
    });
    entries.collect()
}
