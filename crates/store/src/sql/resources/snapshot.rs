//! Everything a declaration is resolved against, in one statement: one snapshot.

use serde_json::Value;
use sqlx::types::Json;
use usher_domain::blueprint::{CompositeType, ParameterSchema};
use usher_domain::broker::accept::Provision;
use usher_domain::broker::ports::{
    AssignmentView, BlueprintView, CloudView, CredentialView, Denied, Views,
};
use usher_domain::credentials::{Assignment, Credential, may_use};
use usher_domain::object::id::{
    BlueprintVersionId, CloudId, CredentialId, ProjectId, ProviderConfigId,
};
use usher_domain::object::idempotency;
use usher_domain::object::kv::KvCoordinates;
use usher_domain::object::name;
use usher_domain::object::provider::Provider;
use usher_kernel::Timestamp;
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::{corrupt, from_json, word};
use super::super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::port::Snapshot;

impl Port {
    pub(crate) async fn snapshot(
        &self,
        command: &Provision,
        key: Option<(idempotency::Scope, idempotency::Key)>,
    ) -> Result<Snapshot, Error> {
        let named = Named {
            name: command.name.clone(),
            project: command.project,
            blueprint_version: command.blueprint_version,
            credential: command.credential,
            key,
        };
        read(&mut *self.pool.read().await?, &named).await
    }
}

/// What a declaration names.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    project: ProjectId,
    blueprint_version: BlueprintVersionId,
    credential: CredentialId,
    key: Option<(idempotency::Scope, idempotency::Key)>,
}

/// All views as one row; what is missing was not found.
#[derive(sqlx::FromRow)]
struct ViewsRow {
    now: Time,
    version_id: Option<Uuid>,
    xrd: Option<Json<Value>>,
    parameters: Option<Json<Value>>,
    strategy: Option<String>,
    role: Option<String>,
    providers: Option<String>,
    credential_id: Option<Uuid>,
    credential_name: Option<String>,
    mount: Option<String>,
    path: Option<String>,
    expires_at: Option<Time>,
    revoked_at: Option<Time>,
    cloud_id: Option<Uuid>,
    cloud_provider: Option<String>,
    endpoint: Option<Json<Value>>,
    requested_by: Option<String>,
    state: Option<String>,
    decided_by: Option<String>,
    decided_at: Option<Time>,
    world: Option<String>,
    config_id: Option<Uuid>,
    name_in_use: bool,
    used_digest: Option<Vec<u8>>,
    used_answer: Option<String>,
    used_until: Option<Time>,
}

/// Reads the views of a declaration.
async fn read(conn: &mut Conn, named: &Named) -> Result<Snapshot, Error> {
    let sql = concat!(
        "SELECT ",
        now!(),
        " AS now, v.id AS version_id, v.xrd, v.parameters, v.strategy, v.role,
        (SELECT string_agg(provider, ',') FROM blueprint_version_providers
            WHERE blueprint_version = v.id) AS providers,
        c.id AS credential_id, c.name AS credential_name, c.mount, c.path, c.expires_at,
        c.revoked_at, d.id AS cloud_id, d.provider AS cloud_provider, d.endpoint,
        a.requested_by, a.state, a.decided_by, a.decided_at, p.world, f.id AS config_id,
        EXISTS (SELECT 1 FROM resources WHERE project = $3 AND name = $4 AND phase <> 'Deleted')
            AS name_in_use,
        k.digest AS used_digest, k.answer AS used_answer, k.expires_at AS used_until
        FROM (SELECT 1 AS one) AS it
        LEFT JOIN blueprint_versions AS v ON v.id = $1
        LEFT JOIN credentials AS c ON c.id = $2
        LEFT JOIN clouds AS d ON d.id = c.cloud
        LEFT JOIN assignments AS a ON a.project = $3 AND a.credential = c.id
        LEFT JOIN placements AS p ON p.project = $3 AND p.phase NOT IN ('Terminating', 'Deleted')
        LEFT JOIN provider_configs AS f
            ON f.world = p.world AND f.namespace = $5 AND f.credential = c.id
        LEFT JOIN idempotency_keys AS k ON k.caller = $6 AND k.project = $3 AND k.key = $7"
    );
    let (caller, key) = match &named.key {
        Some((scope, key)) => (Some(scope.caller.as_str()), Some(key.as_str())),
        None => (None, None),
    };
    let row = sqlx::query_as::<Db, ViewsRow>(sql)
        .bind(named.blueprint_version.as_uuid())
        .bind(named.credential.as_uuid())
        .bind(named.project.as_uuid())
        .bind(&named.name)
        .bind(name::namespace(named.project))
        .bind(caller)
        .bind(key)
        .fetch_one(&mut *conn)
        .await
        .context("read the views of a declaration")?;
    row.snapshot(named)
}

impl ViewsRow {
    fn snapshot(mut self, named: &Named) -> Result<Snapshot, Error> {
        let now = self.now.0;
        let used = self.used()?;
        let blueprint = self.blueprint()?;
        let providers = blueprint.as_ref().map_or(vec![], |it| it.providers.clone());
        let cloud = self.cloud()?;
        let credential = match &cloud {
            Some(cloud) => self.credential(cloud, (named.project, &providers), now)?,
            None => None,
        };
        let assignment = self
            .world
            .take()
            .map(|world| AssignmentView { world, namespace: name::namespace(named.project) });
        let views = Views {
            blueprint,
            credential,
            cloud,
            assignment,
            provider_config: self.config_id.map(ProviderConfigId::from_uuid),
            name_in_use: self.name_in_use,
        };
        Ok(Snapshot { views, used, now })
    }

    fn used(&mut self) -> Result<Option<idempotency::Used>, Error> {
        let (Some(digest), Some(answer), Some(expires_at)) =
            (self.used_digest.take(), self.used_answer.take(), self.used_until)
        else {
            return Ok(None);
        };
        let digest: [u8; 32] =
            digest.try_into().map_err(|_| corrupt("an idempotency key", "digest"))?;
        let digest = idempotency::Digest::from_bytes(digest);
        Ok(Some(idempotency::Used { digest, answer, expires_at: expires_at.0 }))
    }

    fn blueprint(&mut self) -> Result<Option<BlueprintView>, Error> {
        let Some(id) = self.version_id else { return Ok(None) };
        let row = format!("blueprint version \"{id}\"");
        let missing = |field| corrupt(&row, field);
        let xrd = self.xrd.take().ok_or_else(|| missing("xrd"))?.0;
        let parameters = self.parameters.take().ok_or_else(|| missing("parameters"))?.0;
        let schema: ParameterSchema = from_json(&row, "parameters", parameters)?;
        let providers = self.providers.take().unwrap_or_default();
        let mut providers: Vec<Provider> = providers
            .split(',')
            .filter(|it| !it.is_empty())
            .map(|it| word(&row, "providers", it))
            .collect::<Result<_, _>>()?;
        providers.sort();
        Ok(Some(BlueprintView {
            version: BlueprintVersionId::from_uuid(id),
            composite: CompositeType::from_xrd(&xrd).map_err(|_| missing("xrd"))?,
            schema,
            strategy: word(&row, "strategy", self.strategy.as_deref().unwrap_or_default())?,
            role: word(&row, "role", self.role.as_deref().unwrap_or_default())?,
            providers,
        }))
    }

    fn cloud(&mut self) -> Result<Option<CloudView>, Error> {
        let Some(id) = self.cloud_id else { return Ok(None) };
        let row = format!("cloud \"{id}\"");
        let provider = word(&row, "provider", self.cloud_provider.as_deref().unwrap_or_default())?;
        let endpoint = self.endpoint.take().map_or(Value::Null, |it| it.0);
        Ok(Some(CloudView { id: CloudId::from_uuid(id), provider, endpoint }))
    }

    fn credential(
        &mut self,
        cloud: &CloudView,
        (project, providers): (ProjectId, &[Provider]),
        now: Timestamp,
    ) -> Result<Option<CredentialView>, Error> {
        let Some(id) = self.credential_id else { return Ok(None) };
        let row = format!("credential \"{id}\"");
        let text = |it: &mut Option<String>| it.take().unwrap_or_default();
        let name = word(&row, "name", &text(&mut self.credential_name))?;
        let coordinates = KvCoordinates::new(&text(&mut self.mount), &text(&mut self.path))
            .map_err(|_| corrupt(&row, "coordinates"))?;
        let credential = Credential {
            id: CredentialId::from_uuid(id),
            name,
            cloud: cloud.id,
            provider: cloud.provider,
            coordinates: coordinates.clone(),
            expires_at: self.expires_at.map(|it| it.0),
            revoked_at: self.revoked_at.map(|it| it.0),
        };
        let assignment = self.assignment(project, credential.id)?;
        let usable = may_use(&credential, project, assignment.as_ref(), providers, now)
            .map_err(|it| Denied { code: it.code(), text: it.to_string() });
        Ok(Some(CredentialView { id: credential.id, cloud: cloud.id, coordinates, usable }))
    }

    fn assignment(
        &mut self,
        project: ProjectId,
        credential: CredentialId,
    ) -> Result<Option<Assignment>, Error> {
        let Some(state) = self.state.take() else { return Ok(None) };
        let row = format!("assignment of \"{credential}\" to \"{project}\"");
        Ok(Some(Assignment {
            project,
            credential,
            requested_by: self.requested_by.take().unwrap_or_default(),
            state: word(&row, "state", &state)?,
            decided_by: self.decided_by.take(),
            decided_at: self.decided_at.map(|it| it.0),
        }))
    }
}
