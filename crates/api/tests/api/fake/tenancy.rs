//! Projects, catalog, clouds, credentials, labels, operators.

use async_trait::async_trait;
use serde_json::{Map, Value};
use usher_api::ports::{Answer, Catalog, Clouds, Credentials, LabelLayers, Operators, Projects};
use usher_api::refusal::{Refusal, Thing};
use usher_api::views::{
    AssignmentKey, AssignmentView, Caller, CredentialView, Imported, Layer, NewCloud,
    NewCredential, NewOperatorToken, NewProject, Page, Paging, Ref,
};
use usher_domain::audit::{Action, Entry};
use usher_domain::broker::refusal::Refusal as Broker;
use usher_domain::catalog::{Blueprint, BlueprintVersion, Bundle};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::{
    Assignment, Credential, KvCoordinates, Status, UseRefusal, Verdict,
};
use usher_domain::labels::Definition;
use usher_domain::object::id::{
    AuditId, BlueprintId, BlueprintVersionId, CloudId, CredentialId, OperatorTokenId, ProjectId,
    TenancyId,
};
use usher_domain::object::label::Labels;
use usher_domain::object::manifest::SecretText;
use usher_domain::object::provider::Provider;
use usher_domain::object::slug::Slug;
use usher_domain::operators::{self, OperatorToken, TokenHash};
use usher_domain::placements::{NamespacePhase, Placement};
use usher_domain::projects::{Project, ProjectSlug, TenancyResource};

use super::{Fake, START, TOKENS, caller, demo, known, other, paged, uuid};

fn placed(project: ProjectId) -> Placement {
    Placement { project, world: "local".to_owned(), phase: NamespacePhase::Ready }
}

#[async_trait]
impl Projects for Fake {
    async fn list(&self, paging: Paging) -> Answer<Page<Project>> {
        self.check()?;
        paged(&self.state().projects, &paging)
    }

    async fn get(&self, project: &Ref<ProjectId, ProjectSlug>) -> Answer<Project> {
        self.check()?;
        let state = self.state();
        let found = state.projects.iter().find(|it| match project {
            Ref::Id(id) => it.id == *id,
            Ref::Name(slug) => it.slug == *slug,
        });
        let missing = || Refusal::NotFound { thing: Thing::Project, what: format!("{project:?}") };
        found.cloned().ok_or_else(|| missing().into())
    }

    async fn create(&self, _: &Caller, new: NewProject) -> Answer<Project> {
        self.check()?;
        let mut state = self.state();
        if state.projects.iter().any(|it| it.slug == new.slug) {
            return Err(Broker::NameInUse { what: new.slug.to_string() }.into());
        }
        let id = ProjectId::from_uuid(uuid(50 + state.projects.len() as u128));
        let project = Project { id, slug: new.slug, name: new.name };
        state.projects.push(project.clone());
        Ok(project)
    }

    async fn delete(&self, _: &Caller, _: ProjectId) -> Answer<()> {
        self.check()?;
        Err(usher_domain::object::occupancy::Occupied::Rows(1).into())
    }

    async fn placements(&self, paging: Paging) -> Answer<Page<Placement>> {
        self.check()?;
        paged(&[placed(demo()), placed(other())], &paging)
    }

    async fn placement(&self, project: ProjectId) -> Answer<Placement> {
        self.check()?;
        Ok(placed(project))
    }

    async fn place(&self, _: &Caller, project: ProjectId, world: &str) -> Answer<Placement> {
        self.check()?;
        if world != "local" {
            return Err(Refusal::NotFound { thing: Thing::World, what: world.to_owned() }.into());
        }
        Ok(placed(project))
    }

    async fn terminate_placement(&self, _: &Caller, project: ProjectId) -> Answer<Placement> {
        self.check()?;
        Ok(placed(project))
    }

    async fn tenancy(&self, id: TenancyId) -> Answer<TenancyResource> {
        self.check()?;
        if id != TenancyId::from_uuid(uuid(20)) {
            return Err(Refusal::NotFound { thing: Thing::Tenancy, what: id.to_string() }.into());
        }
        Ok(TenancyResource { id, project: demo(), created_at: START, released_at: None })
    }
}

fn blueprint() -> Blueprint {
    Blueprint { id: BlueprintId::from_uuid(uuid(30)), name: "local-node".parse().unwrap() }
}

fn version(bundle: &Bundle) -> BlueprintVersion {
    BlueprintVersion {
        id: BlueprintVersionId::from_uuid(uuid(31)),
        blueprint: blueprint().id,
        version: bundle.version.clone(),
        xrd: bundle.xrd.clone(),
        composition: bundle.composition.clone(),
        schema: bundle.schema.clone(),
        strategy: bundle.strategy,
        role: bundle.role,
        providers: bundle.providers.clone(),
        published_at: START,
    }
}

fn published(bundle: &Bundle) -> Imported {
    Imported {
        version: Some(version(bundle)),
        blueprint: bundle.blueprint.clone(),
        name: bundle.version.clone(),
        unchanged: false,
        findings: vec![],
    }
}

#[async_trait]
impl Catalog for Fake {
    async fn list(&self, paging: Paging) -> Answer<Page<Blueprint>> {
        self.check()?;
        paged(&[blueprint()], &paging)
    }

    async fn get(&self, wanted: &Ref<BlueprintId, Slug>) -> Answer<Blueprint> {
        self.check()?;
        let it = blueprint();
        if *wanted == Ref::Id(it.id) || *wanted == Ref::Name(it.name.clone()) {
            return Ok(it);
        }
        Err(Broker::BlueprintNotFound { what: format!("{wanted:?}") }.into())
    }

    async fn versions(&self, _: BlueprintId) -> Answer<Vec<BlueprintVersion>> {
        self.check().map(|()| vec![])
    }

    async fn publish(&self, _: &Caller, bundle: Bundle) -> Answer<Imported> {
        self.check()?;
        Ok(published(&bundle))
    }

    async fn import(&self, _: &Caller, bundles: Vec<Bundle>) -> Answer<Vec<Imported>> {
        self.check()?;
        Ok(bundles.iter().map(published).collect())
    }

    async fn delete_version(&self, _: &Caller, _: BlueprintId, version: &str) -> Answer<()> {
        self.check()?;
        Err(Refusal::StillReferenced { what: version.to_owned() }.into())
    }
}

fn cloud() -> Cloud {
    Cloud {
        id: CloudId::from_uuid(uuid(32)),
        name: "local".parse().unwrap(),
        provider: Provider::Local,
        endpoint: Map::from_iter([("url".to_owned(), Value::from("local"))]),
    }
}

#[async_trait]
impl Clouds for Fake {
    async fn list(&self, paging: Paging) -> Answer<Page<Cloud>> {
        self.check()?;
        paged(&[cloud()], &paging)
    }

    async fn get(&self, wanted: &Ref<CloudId, Slug>) -> Answer<Cloud> {
        self.check()?;
        let it = cloud();
        if *wanted == Ref::Id(it.id) || *wanted == Ref::Name(it.name.clone()) {
            return Ok(it);
        }
        Err(Broker::CloudNotFound { what: format!("{wanted:?}") }.into())
    }

    async fn create(&self, _: &Caller, new: NewCloud) -> Answer<Cloud> {
        self.check()?;
        if new.name == cloud().name {
            return Err(Broker::NameInUse { what: new.name.to_string() }.into());
        }
        let NewCloud { name, provider, endpoint } = new;
        Ok(Cloud { name, provider, endpoint, ..cloud() })
    }

    async fn delete(&self, _: &Caller, _: CloudId) -> Answer<()> {
        self.check()?;
        Err(Refusal::StillReferenced { what: "cloud \"local\"".to_owned() }.into())
    }
}

fn credential() -> CredentialView {
    CredentialView {
        credential: Credential {
            id: CredentialId::from_uuid(uuid(22)),
            name: "local".parse().unwrap(),
            cloud: cloud().id,
            provider: Provider::Local,
            coordinates: KvCoordinates::new("kv", "clouds/local").unwrap(),
            expires_at: None,
            revoked_at: None,
        },
        cloud: cloud().name,
        status: Status::Active,
    }
}

fn assigned(fake: &Fake, key: &AssignmentKey) -> Answer<AssignmentView> {
    let view = credential();
    let slug = view.credential.name.clone();
    if key.credential != Ref::Name(slug.clone()) && key.credential != Ref::Id(view.credential.id) {
        let (credential, project) = (view.credential.id, key.project);
        return Err(UseRefusal::NotAssigned { credential, project }.into());
    }
    let state = fake.state();
    let project = state.projects.iter().find(|it| it.id == key.project).unwrap();
    let assignment = Assignment::request(key.project, view.credential.id, "operator");
    Ok(AssignmentView { assignment, project: project.slug.clone(), credential: slug })
}

#[async_trait]
impl Credentials for Fake {
    async fn list(&self, paging: Paging) -> Answer<Page<CredentialView>> {
        self.check()?;
        paged(&[credential()], &paging)
    }

    async fn get(&self, wanted: &Ref<CredentialId, Slug>) -> Answer<CredentialView> {
        self.check()?;
        let it = credential();
        if *wanted == Ref::Id(it.credential.id) || *wanted == Ref::Name(it.credential.name.clone())
        {
            return Ok(it);
        }
        Err(Broker::CredentialNotFound { what: format!("{wanted:?}") }.into())
    }

    async fn create(&self, _: &Caller, new: NewCredential) -> Answer<CredentialView> {
        let cloud = Clouds::get(self, &new.cloud).await?;
        let mut it = credential();
        it.credential.name = new.name;
        it.credential.coordinates = new.coordinates;
        it.credential.expires_at = new.expires_at;
        it.credential.cloud = cloud.id;
        Ok(it)
    }

    async fn revoke(&self, _: &Caller, _: CredentialId) -> Answer<CredentialView> {
        self.check()?;
        Ok(credential())
    }

    async fn delete(&self, _: &Caller, _: CredentialId) -> Answer<()> {
        self.check()?;
        Err(Refusal::StillReferenced { what: "credential \"local\"".to_owned() }.into())
    }

    async fn assignments(&self, project: ProjectId) -> Answer<Vec<AssignmentView>> {
        self.check()?;
        let credential = Ref::Id(credential().credential.id);
        Ok(vec![assigned(self, &AssignmentKey { project, credential })?])
    }

    async fn request(&self, _: &Caller, key: AssignmentKey) -> Answer<AssignmentView> {
        self.check()?;
        assigned(self, &key)
    }

    async fn decide(
        &self,
        caller: &Caller,
        key: AssignmentKey,
        verdict: Verdict,
    ) -> Answer<AssignmentView> {
        self.check()?;
        let mut view = assigned(self, &key)?;
        view.assignment = view.assignment.decide(verdict, caller.name.as_str(), START)?;
        Ok(view)
    }

    async fn unassign(&self, _: &Caller, key: AssignmentKey) -> Answer<()> {
        self.check()?;
        assigned(self, &key).map(|_| ())
    }
}

#[async_trait]
impl LabelLayers for Fake {
    async fn get(&self, _: Layer) -> Answer<Labels> {
        self.check()?;
        Ok(self.state().labels.clone())
    }

    async fn write(&self, _: &Caller, _: Layer, labels: Labels) -> Answer<Labels> {
        self.check()?;
        self.state().labels.clone_from(&labels);
        Ok(labels)
    }

    async fn definitions(&self) -> Answer<Vec<Definition>> {
        self.check()?;
        Ok(vec![Definition { key: "team".parse().unwrap(), propagatable: true }])
    }

    async fn define(&self, _: &Caller, it: Definition) -> Answer<Definition> {
        self.check()?;
        Ok(it)
    }
}

fn token(name: &str) -> OperatorToken {
    let it = caller(name).unwrap();
    OperatorToken {
        id: it.token,
        name: it.name,
        grant: it.grant,
        hash: TokenHash::from_bytes([0; 32]),
        expires_at: None,
        revoked_at: None,
    }
}

#[async_trait]
impl Operators for Fake {
    async fn admit(&self, hash: TokenHash) -> Answer<Option<Caller>> {
        Ok(known(hash))
    }

    async fn list(&self, paging: Paging) -> Answer<Page<OperatorToken>> {
        self.check()?;
        let tokens: Vec<_> = TOKENS.iter().map(|(name, _)| token(name)).collect();
        paged(&tokens, &paging)
    }

    async fn create(
        &self,
        _: &Caller,
        new: NewOperatorToken,
    ) -> Answer<(OperatorToken, SecretText)> {
        self.check()?;
        let NewOperatorToken { name, grant, expires_at } = new;
        Ok((OperatorToken { name, grant, expires_at, ..token("admin") }, operators::text(&[9; 32])))
    }

    async fn revoke(&self, _: &Caller, id: OperatorTokenId) -> Answer<()> {
        self.check()?;
        if TOKENS.iter().any(|(name, _)| token(name).id == id) {
            return Ok(());
        }
        Err(Refusal::NotFound { thing: Thing::OperatorToken, what: id.to_string() }.into())
    }

    async fn audit(&self, paging: Paging) -> Answer<Page<Entry>> {
        self.check()?;
        let entry = Entry {
            id: AuditId::from_uuid(uuid(40)),
            at: START,
            actor: "admin".to_owned(),
            action: Action::ProjectCreate,
            project: Some(demo()),
            subject: "demo".to_owned(),
            detail: Map::new(),
        };
        paged(&[entry], &paging)
    }
}
