//! `usher blueprint`: publishes bundles from directories.
//!
//! A bundle is a directory with `blueprint.yaml` (blueprint, version, parameters, strategy, role,
//! providers), `xrd.yaml` and `composition.yaml`. JSON is YAML, too.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};
use usher_wire::operator::{Imported, List};

use super::understood;
use crate::client::encoded;
use crate::console::{cell, table};
use crate::error::CliError;
use crate::session::{Basics, Session, run as session};

/// The file that makes a directory a bundle.
const MANIFEST: &str = "blueprint.yaml";

#[derive(clap::Args)]
pub struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Publish every bundle in a directory that is not published yet
    Import(Folder),
    /// Publish one bundle
    Publish(Folder),
    /// Remove a version that no resource uses
    Delete {
        /// Blueprint and version
        #[arg(value_name = "NAME@VERSION")]
        version: String,
        #[command(flatten)]
        basics: Basics,
    },
}

#[derive(clap::Args)]
struct Folder {
    /// Directory of the bundle
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    match flags.command {
        Command::Import(it) => {
            let Folder { folder, basics } = it;
            session(&basics, |it| import(it, folder))
        }
        Command::Publish(it) => {
            let Folder { folder, basics } = it;
            session(&basics, |it| publish(it, folder))
        }
        Command::Delete { version, basics } => session(&basics, |it| delete(it, version)),
    }
}

/// Sends bundles one by one, so that the body limit counts for each alone.
async fn import(session: Session, folder: PathBuf) -> Result<(), CliError> {
    let mut done = vec![];
    for folder in bundles(&folder)? {
        let body = json!({"bundles": [bundle(&folder)?]});
        let sent = session.client.call(Method::POST, "/v1/blueprints/import", Some(&body), None);
        let list: List<Imported> = understood(sent.await?)?;
        done.extend(list.items);
    }
    let items: Vec<Value> =
        done.iter().map(|it| serde_json::to_value(it).unwrap_or_default()).collect();
    session.console.one(&json!({"items": items, "next_cursor": null}), || shown(&done))?;
    if done.iter().any(|it| it.outcome == "refused") {
        return Err(CliError { code: 3, text: "the server refused a bundle".to_owned() });
    }
    Ok(())
}

async fn publish(session: Session, folder: PathBuf) -> Result<(), CliError> {
    let body = bundle(&folder)?;
    let value = session.client.call(Method::POST, "/v1/blueprints", Some(&body), None).await?;
    let done: Imported = understood(value.clone())?;
    session.console.one(&value, || shown(&[done]))
}

async fn delete(session: Session, version: String) -> Result<(), CliError> {
    let (name, number) = version
        .split_once('@')
        .ok_or_else(|| CliError::usage(format!("\"{version}\" is not NAME@VERSION")))?;
    let path = format!("/v1/blueprints/{}/versions/{}", encoded(name), encoded(number));
    session.client.call(Method::DELETE, &path, None, None).await?;
    session.console.one(&json!({"deleted": version}), || format!("{version} deleted\n"))
}

fn shown(done: &[Imported]) -> String {
    let row = |it: &Imported| {
        vec![it.blueprint.clone(), it.version.clone(), it.outcome.clone(), cell(it.id.as_deref())]
    };
    let rows: Vec<_> = done.iter().map(row).collect();
    let mut out = table(&["BLUEPRINT", "VERSION", "OUTCOME", "ID"], &rows);
    for it in done {
        for finding in &it.findings {
            let weight = if finding.fatal { "error" } else { "note" };
            let name = format!("{}@{}", it.blueprint, it.version);
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{name}: {weight}: {}: {}", finding.at, finding.text);
        }
    }
    out
}

/// The bundles in a directory: itself, or its subdirectories, sorted by name.
fn bundles(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    if folder.join(MANIFEST).is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let unreadable = |why: std::io::Error| {
        CliError::usage(format!("failed to read \"{}\": {why}", folder.display()))
    };
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.join(MANIFEST).is_file() {
            found.push(path);
        }
    }
    found.sort();
    if found.is_empty() {
        let shown = folder.display();
        return Err(CliError::usage(format!(
            "\"{shown}\" has no bundle: no {MANIFEST} in it or below"
        )));
    }
    Ok(found)
}

fn bundle(folder: &Path) -> Result<Value, CliError> {
    let mut bundle = document(&folder.join(MANIFEST))?;
    let Some(fields) = bundle.as_object_mut() else {
        let shown = folder.join(MANIFEST).display().to_string();
        return Err(CliError::usage(format!("\"{shown}\" is not a YAML mapping")));
    };
    for (name, file) in [("xrd", "xrd.yaml"), ("composition", "composition.yaml")] {
        fields.insert(name.to_owned(), document(&folder.join(file))?);
    }
    Ok(bundle)
}

fn document(path: &Path) -> Result<Value, CliError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|why| CliError::usage(format!("failed to read \"{shown}\": {why}")))?;
    serde_saphyr::from_str(&text)
        .map_err(|why| CliError::usage(format!("\"{shown}\" is not valid YAML: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_three_documents_in_one_directory() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(bundles(folder.path()).unwrap_err().code, 2);
        write(MANIFEST, "blueprint: a\nversion: \"1\"\nproviders: [local]\n");
        write("xrd.yaml", "kind: CompositeResourceDefinition\n");
        assert_eq!(bundle(folder.path()).unwrap_err().code, 2, "the composition is missing");
        write("composition.yaml", "{\"kind\": \"Composition\"}");
        assert_eq!(bundles(folder.path()).unwrap(), [folder.path().to_owned()]);
        let expected = json!({
            "blueprint": "a", "version": "1", "providers": ["local"],
            "xrd": {"kind": "CompositeResourceDefinition"}, "composition": {"kind": "Composition"},
        });
        assert_eq!(bundle(folder.path()).unwrap(), expected);
        write("xrd.yaml", "{");
        assert_eq!(bundle(folder.path()).unwrap_err().code, 2);
    }
}
