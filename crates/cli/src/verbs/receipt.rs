//! `usher receipt`: every external name a resource ever had, and the evidence.

use std::fmt::{Display, Write as _};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};
use usher_wire::operator::{Receipt, ReceiptRow};

use crate::console::{cell, table};
use crate::error::CliError;
use crate::session::{Basics, InProject, Session, run as session};

#[derive(clap::Args)]
pub struct Flags {
    /// Name or id of the resource; a name means the newest resource of that name
    #[arg(value_name = "NAME|ID", required_unless_present = "verify")]
    resource: Option<String>,
    /// Verify that the server issued the receipt in this file, as printed with -o json
    #[arg(long, value_name = "FILE", conflicts_with = "resource")]
    verify: Option<PathBuf>,
    #[command(flatten)]
    project: InProject,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| async move {
        match &flags.verify {
            Some(path) => verify(it, path).await,
            None => receipt(it, flags).await,
        }
    })
}

async fn verify(session: Session, path: &Path) -> Result<(), CliError> {
    let unread = |why: &dyn Display| {
        CliError::usage(format!("failed to read a receipt from \"{}\": {why}", path.display()))
    };
    let text = fs::read_to_string(path).map_err(|why| unread(&why))?;
    let value: Value = serde_json::from_str(&text).map_err(|why| unread(&why))?;
    let body = json!({ "receipt": value });
    session.client.call(Method::POST, "/v1/receipts/verify", Some(&body), None).await?;
    session.console.one(&json!({"valid": true}), || "the receipt is genuine\n".to_owned())
}

async fn receipt(session: Session, flags: Flags) -> Result<(), CliError> {
    let found = session
        .resource(&flags.resource.unwrap_or_default(), flags.project.name().as_deref())
        .await?;
    let path = format!("/v1/resources/{}/receipt", found.id);
    let receipt: Receipt = session.client.read(&path).await?;
    session.console.one(&receipt, || shown(&receipt))
}

fn shown(receipt: &Receipt) -> String {
    let resource = &receipt.resource;
    let end = if receipt.settled { "every name is accounted for" } else { "names not yet gone" };
    let mut out = format!("{} {} is {}: {end}\n\n", resource.name, resource.id, resource.phase);
    out.push_str(&rows(&receipt.rows));
    if let Some(shared) = &receipt.provider_config {
        // Writing to a String cannot fail.
        let _ = write!(out, "\nShared ProviderConfig {}\n{}", shared.id, rows(&shared.rows));
    }
    out
}

fn rows(rows: &[ReceiptRow]) -> String {
    let row = |it: &ReceiptRow| {
        vec![
            it.name.kind.clone(),
            it.name.name.clone(),
            it.state.clone(),
            it.evidence.answer.clone(),
            it.evidence.by.clone(),
            it.evidence.at.clone(),
            cell(it.uid.as_deref()),
        ]
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    table(&["KIND", "NAME", "STATE", "EVIDENCE", "BY", "AT", "UID"], &rows)
}
