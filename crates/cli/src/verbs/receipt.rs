//! `usher receipt`: every external name a resource ever had, and the evidence.

use std::fmt::Write as _;
use std::process::ExitCode;

use usher_wire::operator::{Receipt, ReceiptRow};

use super::OneResource;
use crate::console::{cell, table};
use crate::error::CliError;
use crate::session::{Session, run as session};

pub(super) fn run(about: OneResource) -> ExitCode {
    session(&about.basics.clone(), |it| receipt(it, about))
}

async fn receipt(session: Session, about: OneResource) -> Result<(), CliError> {
    let found = about.find(&session).await?;
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
