//! Demo data of a first start: a project, a placement, a cloud, a credential and a blueprint.

use serde_json::{Value, json};
use usher_domain::blueprint::parameter::BadSchema;
use usher_domain::blueprint::{InjectionStrategy, MeshRole, ParameterSchema};
use usher_domain::catalog::{Blueprint, BlueprintVersion};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::{Assignment, Credential, KvCoordinates, Verdict};
use usher_domain::object::id::{BlueprintId, BlueprintVersionId, CloudId, CredentialId, ProjectId};
use usher_domain::object::provider::Provider;
use usher_domain::placements::{NamespacePhase, Placement};
use usher_domain::projects::Project;
use usher_store::{Error, Store};
use uuid::Uuid;

/// Name of the project.
pub const PROJECT: &str = "demo";
/// Name of the blueprint.
pub const BLUEPRINT: &str = "local-node";
/// Name of the cloud and of the credential.
pub const LOCAL: &str = "local";

/// Creates what is missing; idempotent, so an interrupted start completes it the next time.
pub async fn seed(store: &Store, world: &str) -> Result<(), Error> {
    if store.project(PROJECT).await?.is_some() && is_whole(store).await? {
        return Ok(());
    }
    let project = project(store).await?;
    if store.placement(project).await?.is_none() {
        let (world, phase) = (world.to_owned(), NamespacePhase::Ready);
        store.place_project(Placement { project, world, phase }).await?;
    }
    let credential = credential(store).await?;
    blueprint(store).await?;
    // The assignment is written last: it marks a complete seed.
    let assigned = store.assignments(project).await?;
    if !assigned.iter().any(|it| it.credential == credential) {
        let asked = Assignment::request(project, credential, "usher");
        let now = store.now().await?;
        let granted = asked.decide(Verdict::Approve, "seed", now);
        store.assign(asked.clone()).await?;
        if let Ok(granted) = granted {
            store.decide_assignment(asked, granted).await?;
        }
    }
    Ok(())
}

/// The XRD of the blueprint.
pub fn xrd() -> Value {
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": "localnodes.local.usher.dev" },
        "spec": {
            "group": "local.usher.dev",
            "scope": "Namespaced",
            "names": { "kind": "LocalNode", "plural": "localnodes" },
            "versions": [{ "name": "v1alpha1", "served": true, "referenceable": true }],
        },
    })
}

/// The parameters of the blueprint.
fn schema() -> Result<ParameterSchema, BadSchema> {
    let schema = json!({ "parameters": [
        { "name": "readyAfterMs", "type": "integer", "default": 0 },
        { "name": "failWith", "type": "string", "default": "" },
    ] });
    match serde_json::from_value(schema) {
        Ok(schema) => Ok(schema),
        Err(_) => ParameterSchema::new(vec![]),
    }
}

/// Whether an operator or an earlier start has completed the seed.
async fn is_whole(store: &Store) -> Result<bool, Error> {
    let Some(project) = store.project(PROJECT).await? else { return Ok(false) };
    let assigned = store.assignments(project.id).await?;
    Ok(assigned.iter().any(|it| it.decided_by.is_some()))
}

async fn project(store: &Store) -> Result<ProjectId, Error> {
    if let Some(found) = store.project(PROJECT).await? {
        return Ok(found.id);
    }
    let id = ProjectId::from_uuid(Uuid::now_v7());
    let (Ok(slug), Ok(name)) = (PROJECT.parse(), "Demo".parse()) else { return Ok(id) };
    store.create_project(Project { id, slug, name }).await?;
    Ok(id)
}

async fn credential(store: &Store) -> Result<CredentialId, Error> {
    let known = store.credentials().await?;
    if let Some(found) = known.into_iter().find(|it| it.name.as_str() == LOCAL) {
        return Ok(found.id);
    }
    let cloud = cloud(store).await?;
    let id = CredentialId::from_uuid(Uuid::now_v7());
    let (Ok(name), Ok(coordinates)) = (LOCAL.parse(), KvCoordinates::new("local", "none")) else {
        return Ok(id);
    };
    let provider = Provider::Local;
    let (expires_at, revoked_at) = (None, None);
    let credential = Credential { id, name, cloud, provider, coordinates, expires_at, revoked_at };
    store.create_credential(credential).await?;
    Ok(id)
}

async fn cloud(store: &Store) -> Result<CloudId, Error> {
    let known = store.clouds().await?;
    if let Some(found) = known.into_iter().find(|it| it.name.as_str() == LOCAL) {
        return Ok(found.id);
    }
    let id = CloudId::from_uuid(Uuid::now_v7());
    let Ok(name) = LOCAL.parse() else { return Ok(id) };
    let (provider, endpoint) = (Provider::Local, serde_json::Map::new());
    store.create_cloud(Cloud { id, name, provider, endpoint }).await?;
    Ok(id)
}

async fn blueprint(store: &Store) -> Result<(), Error> {
    let known = store.blueprints().await?;
    let found = known.into_iter().find(|it| it.name.as_str() == BLUEPRINT).map(|it| it.id);
    let blueprint = if let Some(id) = found {
        id
    } else {
        let id = BlueprintId::from_uuid(Uuid::now_v7());
        let Ok(name) = BLUEPRINT.parse() else { return Ok(()) };
        store.create_blueprint(Blueprint { id, name }).await?;
        id
    };
    if !store.blueprint_versions(blueprint).await?.is_empty() {
        return Ok(());
    }
    let Ok(schema) = schema() else { return Ok(()) };
    let version = BlueprintVersion {
        id: BlueprintVersionId::from_uuid(Uuid::now_v7()),
        blueprint,
        version: "1.0.0".to_owned(),
        xrd: xrd(),
        composition: Value::Null,
        schema,
        strategy: InjectionStrategy::ProviderSecret,
        role: MeshRole::Node,
        providers: vec![Provider::Local],
        published_at: store.now().await?,
    };
    store.publish(version).await
}

#[cfg(test)]
mod tests {
    use usher_domain::blueprint::CompositeType;

    use super::*;

    #[test]
    fn the_seed_data_is_valid() {
        let composite = CompositeType::from_xrd(&xrd()).unwrap();
        assert_eq!(composite.group_kind(), "local.usher.dev/LocalNode");
        assert_eq!(schema().unwrap().parameters().len(), 2);
        assert!(KvCoordinates::new("local", "none").is_ok());
    }
}
