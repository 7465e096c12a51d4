//! Blueprints and clouds.

use axum::body::Body;
use axum::http::{Method, Response};
use serde_json::{Value, json};
use usher_domain::blueprint::ParameterSchema;
use usher_domain::broker::refusal::Refusal as Broker;
use usher_domain::catalog::lint::Finding;
use usher_domain::catalog::{Blueprint, BlueprintVersion, Bundle};
use usher_domain::clouds::Cloud;
use usher_domain::object::offender::shortened;
use usher_domain::object::provider::Provider;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use super::Paged;
use crate::call::{Call, all, created, no_content, ok, page, reference};
use crate::ports::{Answer, Failure};
use crate::refusal::Refusal;
use crate::render;
use crate::route::{PAGED, Right, Route};
use crate::views::{Imported, NewCloud};

const VERSIONS: &str = "/v1/blueprints/{blueprint}/versions";
const VERSION: &str = "/v1/blueprints/{blueprint}/versions/{version}";
const CLOUD: &str = "/v1/clouds/{cloud}";
/// The longest name of a version.
const VERSION_MAX: usize = 64;

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Project(Role::Viewer);
    let admin = Right::Installation(Role::Admin);
    vec![
        Route::new((Method::GET, "/v1/blueprints"), viewer, "List blueprints", list)
            .lists::<wire::Blueprint>(PAGED),
        Route::new((Method::POST, "/v1/blueprints"), admin, "Publish a blueprint version", publish)
            .takes::<wire::Bundle>()
            .gives::<wire::Imported>(201),
        Route::new((Method::POST, "/v1/blueprints/import"), admin, "Import bundles", import)
            .takes::<wire::ImportBlueprints>()
            .lists::<wire::Imported>(&[]),
        Route::new((Method::GET, "/v1/blueprints/{blueprint}"), viewer, "Get a blueprint", get)
            .gives::<wire::Blueprint>(200),
        Route::new((Method::GET, VERSIONS), viewer, "List versions", versions)
            .lists::<wire::BlueprintVersion>(&[]),
        Route::new((Method::DELETE, VERSION), admin, "Delete a version", delete_version),
        Route::new((Method::GET, "/v1/clouds"), viewer, "List clouds", clouds)
            .lists::<wire::Cloud>(PAGED),
        Route::new((Method::POST, "/v1/clouds"), admin, "Create a cloud", create_cloud)
            .takes::<wire::CreateCloud>()
            .gives::<wire::Cloud>(201),
        Route::new((Method::GET, CLOUD), viewer, "Get a cloud", get_cloud)
            .gives::<wire::Cloud>(200),
        Route::new((Method::DELETE, CLOUD), admin, "Delete a cloud", delete_cloud),
    ]
}

fn blueprint(it: &Blueprint) -> wire::Blueprint {
    wire::Blueprint { id: it.id.to_string(), name: it.name.to_string() }
}

fn version(it: &BlueprintVersion) -> wire::BlueprintVersion {
    let schema = serde_json::to_value(&it.schema).unwrap_or_default();
    let parameters = schema.get("parameters").and_then(Value::as_array).cloned();
    wire::BlueprintVersion {
        id: it.id.to_string(),
        blueprint: it.blueprint.to_string(),
        version: it.version.clone(),
        parameters: parameters.unwrap_or_default(),
        strategy: it.strategy.to_string(),
        role: it.role.to_string(),
        providers: it.providers.iter().map(ToString::to_string).collect(),
        published_at: render::time(it.published_at),
    }
}

fn finding(it: &Finding) -> wire::Finding {
    wire::Finding { fatal: it.fatal, at: it.at.clone(), text: it.text.clone() }
}

fn imported(it: &Imported) -> wire::Imported {
    let outcome = match (&it.version, it.unchanged) {
        (Some(_), false) => "published",
        (Some(_), true) => "unchanged",
        (None, _) => "refused",
    };
    wire::Imported {
        blueprint: it.blueprint.to_string(),
        version: it.name.clone(),
        outcome: outcome.to_owned(),
        id: it.version.as_ref().map(|it| it.id.to_string()),
        findings: it.findings.iter().map(finding).collect(),
    }
}

fn cloud(it: &Cloud) -> wire::Cloud {
    wire::Cloud {
        id: it.id.to_string(),
        name: it.name.to_string(),
        provider: it.provider.to_string(),
        endpoint: it.endpoint.clone(),
    }
}

/// A bundle as checked data.
fn bundle(it: wire::Bundle) -> Answer<Bundle> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    let sound = (1..=VERSION_MAX).contains(&it.version.len()) && it.version.bytes().all(plain);
    if !sound {
        return Err(Broker::InvalidInput { what: "version".to_owned() }.into());
    }
    Ok(Bundle {
        blueprint: it.blueprint.parse().map_err(Failure::from)?,
        version: it.version,
        xrd: it.xrd,
        composition: it.composition,
        schema: schema(it.parameters)?,
        strategy: it.strategy.parse().map_err(Failure::from)?,
        role: it.role.as_deref().unwrap_or("node").parse().map_err(Failure::from)?,
        providers: providers(&it.providers)?,
    })
}

fn schema(parameters: Vec<Value>) -> Answer<ParameterSchema> {
    let read = parameters.into_iter().map(serde_json::from_value).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|_| Refusal::BodyInvalid {
        why: format!("a parameter is not like {}", json!({"name": "…", "type": "string"})),
    })?;
    ParameterSchema::new(read).map_err(Failure::from)
}

fn providers(words: &[String]) -> Answer<Vec<Provider>> {
    words.iter().map(|word| word.parse().map_err(Failure::from)).collect()
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().catalog.list(paging).await?, blueprint)
}

async fn publish(call: Call) -> Answer<Response<Body>> {
    let bundle = bundle(call.body()?)?;
    let done = imported(&call.ports().catalog.publish(call.caller()?, bundle).await?);
    if done.outcome == "published" { created(&done) } else { ok(&done) }
}

async fn import(call: Call) -> Answer<Response<Body>> {
    let wire::ImportBlueprints { bundles } = call.body()?;
    let bundles = bundles.into_iter().map(bundle).collect::<Answer<Vec<_>>>()?;
    all(call.ports().catalog.import(call.caller()?, bundles).await?, imported)
}

async fn found(call: &Call) -> Answer<Blueprint> {
    let text = call.param("blueprint")?;
    let missing = || Failure::from(Broker::BlueprintNotFound { what: shortened(text) });
    call.ports().catalog.get(&reference(text).ok_or_else(missing)?).await
}

async fn get(call: Call) -> Answer<Response<Body>> {
    ok(&blueprint(&found(&call).await?))
}

async fn versions(call: Call) -> Answer<Response<Body>> {
    let id = found(&call).await?.id;
    all(call.ports().catalog.versions(id).await?, version)
}

async fn delete_version(call: Call) -> Answer<Response<Body>> {
    let id = found(&call).await?.id;
    call.ports().catalog.delete_version(call.caller()?, id, call.param("version")?).await?;
    Ok(no_content())
}

async fn clouds(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().clouds.list(paging).await?, cloud)
}

async fn create_cloud(call: Call) -> Answer<Response<Body>> {
    let body: wire::CreateCloud = call.body()?;
    let new = NewCloud {
        name: body.name.parse().map_err(Failure::from)?,
        provider: body.provider.parse().map_err(Failure::from)?,
        endpoint: body.endpoint,
    };
    created(&cloud(&call.ports().clouds.create(call.caller()?, new).await?))
}

async fn found_cloud(call: &Call) -> Answer<Cloud> {
    let text = call.param("cloud")?;
    let missing = || Failure::from(Broker::CloudNotFound { what: shortened(text) });
    call.ports().clouds.get(&reference(text).ok_or_else(missing)?).await
}

async fn get_cloud(call: Call) -> Answer<Response<Body>> {
    ok(&cloud(&found_cloud(&call).await?))
}

async fn delete_cloud(call: Call) -> Answer<Response<Body>> {
    let id = found_cloud(&call).await?.id;
    call.ports().clouds.delete(call.caller()?, id).await?;
    Ok(no_content())
}
