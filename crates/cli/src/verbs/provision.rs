//! `usher provision`: declares a node.

use std::collections::BTreeMap;
use std::process::ExitCode;

use hyper::Method;
use serde_json::{Map, Value, json};
use usher_wire::operator::{BlueprintVersion, List, Resource};
use uuid::Uuid;

use super::understood;
use crate::client::encoded;
use crate::console::Form;
use crate::environment::variable;
use crate::error::CliError;
use crate::session::{Basics, Session, field, run as session};
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
    let project = or_only(&session, project, ("project", None)).await?;
    let blueprint = or_only(&session, flags.blueprint, ("blueprint", None)).await?;
    let approved = ("credential", Some(project.as_str()));
    let credential = or_only(&session, flags.credential, approved).await?;
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
    let resource: Resource = understood(value.clone())?;
    let json = session.console.form == Form::Json;
    if !flags.waiting.wait {
        return session.console.one(&value, || format!("{}\n", resource.id));
    }
    if !json {
        session.console.text(&format!("{}\n", resource.id))?;
    }
    let ended = until(&session, resource, &["Ready", "Failed", "Deleted"], &flags.waiting).await?;
    if json {
        session.console.line(&ended)?;
    }
    if ended.phase == "Ready" {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "\"{}\" is {}: see `usher why {}`",
        ended.name, ended.phase, ended.id
    )))
}

/// The name that was given, else the only one of its kind. A credential is looked for among those
/// that are approved for the project: a token of one project may not list others.
async fn or_only(
    session: &Session,
    given: Option<String>,
    (kind, project): (&str, Option<&str>),
) -> Result<String, CliError> {
    if let Some(given) = given {
        return Ok(given);
    }
    let of_project = project.map(|it| format!("/v1/projects/{}/assignments", encoded(it)));
    let items = session.all(&of_project.unwrap_or_else(|| format!("/v1/{kind}s"))).await?;
    let usable = |it: &&Value| field(it, "state").is_none_or(|state| state == "approved");
    let name = |it| ["slug", "name", kind].iter().find_map(|key| field(it, key));
    let mut names: Vec<&str> = items.iter().filter(usable).filter_map(name).collect();
    names.sort_unstable();
    let owner = project.map_or("the server".to_owned(), |it| format!("project \"{it}\""));
    let found = match (names.as_slice(), project) {
        ([only], _) => return Ok((*only).to_owned()),
        ([], None) => "none yet".to_owned(),
        ([], Some(_)) => "none yet: see `usher credential request`".to_owned(),
        (several, _) => format!("several ({})", several.join(", ")),
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
