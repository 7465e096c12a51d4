//! `usher provision`: declares a node.

use std::collections::BTreeMap;
use std::process::ExitCode;

use hyper::Method;
use serde_json::{Map, Value, json};
use usher_wire::operator::{Assignment, BlueprintVersion, List, Resource};
use uuid::Uuid;

use crate::client::encoded;
use crate::console::Form;
use crate::environment::variable;
use crate::error::CliError;
use crate::session::{Basics, Session, run as session};
use crate::wait::{Waiting, until};

/// How often a declaration is sent before it fails.
const ATTEMPTS: u32 = 3;

#[derive(clap::Args)]
pub struct Flags {
    /// Name of the resource
    name: String,
    /// Declare it in this project, else in `USHER_PROJECT`, else in the only one
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Blueprint, else the only one; the newest version if none is given
    #[arg(long, value_name = "NAME[@VERSION]")]
    blueprint: Option<String>,
    /// Credential of the cloud, else the only one approved for the project
    #[arg(long, value_name = "NAME")]
    credential: Option<String>,
    /// Set a parameter of the blueprint
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    basics: Basics,
}

pub(super) fn run(flags: Flags) -> ExitCode {
    session(&flags.basics.clone(), |it| provision(it, flags))
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("not KEY=VALUE".to_owned()),
    }
}

async fn provision(session: Session, flags: Flags) -> Result<(), CliError> {
    let project = flags.project.or_else(|| variable("USHER_PROJECT"));
    let project = or_only(&session, project, "project").await?;
    let blueprint = or_only(&session, flags.blueprint, "blueprint").await?;
    let credential = match flags.credential {
        Some(given) => given,
        None => only_credential(&session, &project).await?,
    };
    let (blueprint, version) = match blueprint.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (blueprint.as_str(), None),
    };
    let kinds = if flags.set.is_empty() {
        BTreeMap::new()
    } else {
        kinds(&session, blueprint, version).await?
    };
    let parameters: Map<String, Value> =
        flags.set.iter().map(|(key, text)| (key.clone(), typed(&kinds, key, text))).collect();
    let body = json!({
        "name": flags.name, "project": project, "blueprint": blueprint, "version": version,
        "credential": credential, "parameters": parameters,
    });
    let value = declare(&session, &body).await?;
    let resource: Resource = serde_json::from_value(value.clone())
        .map_err(|why| CliError::failed(format!("unexpected response of the server: {why}")))?;
    let json = session.console.form == Form::Json;
    if !flags.waiting.wait {
        return session.console.one(&value, || format!("{}\n", resource.id));
    }
    if !json {
        session.console.text(&format!("{}\n", resource.id))?;
    }
    let ended = until(&session, resource, &["Ready", "Failed", "Deleted"], &flags.waiting).await?;
    if json {
        session.console.line(&serde_json::to_value(&ended).unwrap_or_default())?;
    }
    if ended.phase == "Ready" {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "\"{}\" is {}: see `usher why {}`",
        ended.name, ended.phase, ended.id
    )))
}

/// The name that was given, else the only one of its kind that the server has.
async fn or_only(session: &Session, given: Option<String>, kind: &str) -> Result<String, CliError> {
    if let Some(given) = given {
        return Ok(given);
    }
    let items = session.all(&format!("/v1/{kind}s")).await?;
    let name = |it: &Value| it["slug"].as_str().or(it["name"].as_str()).map(str::to_owned);
    only(items.iter().filter_map(name).collect(), kind, ("the server", ""))
}

/// The only credential that is approved for a project; a token of one project may not list others.
async fn only_credential(session: &Session, project: &str) -> Result<String, CliError> {
    let path = format!("/v1/projects/{}/assignments", encoded(project));
    let list: List<Assignment> = session.client.read(&path).await?;
    let approved = list.items.into_iter().filter(|it| it.state == "approved");
    let advice = ": see `usher credential request`";
    let owner = format!("project \"{project}\"");
    only(approved.map(|it| it.credential).collect(), "credential", (&owner, advice))
}

/// The only name; `advice` says what to do if there is none.
fn only(
    mut names: Vec<String>,
    kind: &str,
    (owner, advice): (&str, &str),
) -> Result<String, CliError> {
    names.sort();
    let found = match names.as_slice() {
        [only] => return Ok(only.clone()),
        [] => format!("none yet{advice}"),
        several => format!("several ({})", several.join(", ")),
    };
    Err(CliError::usage(format!("--{kind} is required: {owner} has {found}")))
}

/// Retries a declaration under one idempotency key, so that it is declared once.
async fn declare(session: &Session, body: &Value) -> Result<Value, CliError> {
    let key = Uuid::new_v4().to_string();
    let mut attempt = 1;
    loop {
        let sent = session.client.call(Method::POST, "/v1/resources", Some(body), Some(&key)).await;
        match sent {
            Ok(value) => return Ok(value),
            Err(why) if why.is_passing() && attempt < ATTEMPTS => attempt += 1,
            Err(why) => return Err(why.into()),
        }
    }
}

/// The parameter types of a blueprint, so that digits for a string parameter stay a string.
async fn kinds(
    session: &Session,
    blueprint: &str,
    version: Option<&str>,
) -> Result<BTreeMap<String, String>, CliError> {
    let path = format!("/v1/blueprints/{}/versions", encoded(blueprint));
    let versions: List<BlueprintVersion> = session.client.read(&path).await?;
    let meant = match version {
        Some(version) => versions.items.iter().find(|it| it.version == version),
        None => versions.items.last(),
    };
    let parameters = meant.map(|it| it.parameters.as_slice()).unwrap_or_default();
    let text = |it: &Value, name: &str| it.get(name).and_then(Value::as_str).map(str::to_owned);
    Ok(parameters.iter().filter_map(|it| Some((text(it, "name")?, text(it, "type")?))).collect())
}

/// A value of the parameter's type; a text that does not parse is left for the server to refuse.
fn typed(kinds: &BTreeMap<String, String>, key: &str, text: &str) -> Value {
    let fitting = match kinds.get(key).map(String::as_str) {
        Some("boolean") => text.parse::<bool>().ok().map(Value::from),
        Some("integer") => text.parse::<i64>().ok().map(Value::from),
        Some(_) | None => None,
    };
    fitting.unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_type_of_its_blueprint_parameter() {
        let kinds = [("count", "integer"), ("big", "boolean"), ("zip", "string")];
        let kinds = kinds.map(|(key, kind)| (key.to_owned(), kind.to_owned())).into();
        assert_eq!(typed(&kinds, "count", "7"), json!(7));
        assert_eq!(typed(&kinds, "count", "seven"), json!("seven"));
        assert_eq!(typed(&kinds, "big", "true"), json!(true));
        assert_eq!(typed(&kinds, "zip", "01234"), json!("01234"));
        assert_eq!(typed(&kinds, "unknown", "1"), json!("1"));
    }

    #[test]
    fn a_pair_has_a_key() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("a").is_err() && pair("=b").is_err());
    }
}
