//! Lookup of records by id and by name.

use usher_api::ports::{Answer, Failure};
use usher_api::refusal::{Refusal as Border, Thing};
use usher_api::views::{Ref, ResourceView};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::refusal::Refusal;
use usher_domain::catalog::{Blueprint, BlueprintVersion};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::Credential;
use usher_domain::object::id::{
    BlueprintId, BlueprintVersionId, CloudId, CredentialId, ProjectId, ResourceId,
};
use usher_domain::object::offender::shortened;
use usher_domain::object::slug::Slug;
use usher_domain::projects::Project;
use usher_kernel::{Record, Version};
use usher_store::{DisplayNames, PeerStatus};

use super::{Services, failure, missing};

impl Services {
    /// A resource; refused if it does not exist.
    pub(super) async fn record(&self, id: ResourceId) -> Answer<Record<Resource>> {
        let refusal = Refusal::ProvisionedResourceNotFound { what: id.to_string() };
        self.store.resource(id).await.map_err(missing(refusal))
    }

    /// The view of a resource, with the names of what it refers to.
    pub(super) async fn view(&self, record: &Record<Resource>) -> Answer<ResourceView> {
        self.view_of(&record.state, record.version).await
    }

    /// The same without its name ledger.
    pub(super) async fn view_of(
        &self,
        resource: &Resource,
        version: Version,
    ) -> Answer<ResourceView> {
        let id = resource.id();
        let names = self.store.display_names(id).await.map_err(failure)?;
        let refusal = || Refusal::ProvisionedResourceNotFound { what: id.to_string() };
        let view = shown(resource, version, names.ok_or_else(refusal)?)?;
        let [view] = self.with_nodes([view]).await?;
        Ok(view)
    }

    /// The same views with the liveness of their nodes.
    pub(super) async fn with_nodes<V: AsMut<[ResourceView]>>(&self, mut views: V) -> Answer<V> {
        let enrolled = |it: &&mut ResourceView| match it.resource.phase() {
            Phase::Pending | Phase::Provisioning | Phase::Deleted => false,
            Phase::Enrolling
            | Phase::Ready
            | Phase::Failed
            | Phase::Deregistering
            | Phase::Deprovisioning => true,
        };
        let mut views_with: Vec<_> = views.as_mut().iter_mut().filter(enrolled).collect();
        if !views_with.is_empty() {
            let ids = views_with.iter().map(|it| it.resource.id()).collect();
            let nodes = self.store.peers_of(ids).await.map_err(failure)?;
            for view in &mut views_with {
                let own = |it: &&PeerStatus| it.peer.registration.resource == view.resource.id();
                view.node = nodes.iter().rfind(own).map(|it| self.mesh().liveness(it));
            }
        }
        Ok(views)
    }

    /// A project; refused if it does not exist.
    pub(super) async fn project(&self, id: ProjectId) -> Answer<Project> {
        let found = self.store.project_of(id).await.map_err(failure)?;
        found.ok_or_else(|| not_found(Thing::Project, &id.to_string()))
    }

    /// A blueprint; refused if it does not exist.
    pub(super) async fn blueprint(&self, it: &Ref<BlueprintId, Slug>) -> Answer<Blueprint> {
        let all = self.store.blueprints().await.map_err(failure)?;
        let found = all.into_iter().find(|known| match it {
            Ref::Id(id) => known.id == *id,
            Ref::Name(name) => known.name == *name,
        });
        found.ok_or_else(|| Refusal::BlueprintNotFound { what: display_name(it) }.into())
    }

    /// A published version; the newest one if none is named.
    pub(super) async fn version(
        &self,
        blueprint: &Slug,
        version: Option<&str>,
    ) -> Answer<BlueprintVersion> {
        let found = self.blueprint(&Ref::Name(blueprint.clone())).await?;
        let mut all = self.store.blueprint_versions(found.id).await.map_err(failure)?;
        let chosen = match version {
            Some(wanted) => all.into_iter().find(|it| it.version == wanted),
            None => all.pop(),
        };
        chosen.ok_or_else(|| {
            let version = version.unwrap_or("newest");
            let what = shortened(&format!("{blueprint}@{version}"));
            Refusal::BlueprintNotFound { what }.into()
        })
    }

    /// The blueprint's version and the credential that a declaration names.
    pub(super) async fn named(
        &self,
        (blueprint, version): (&Slug, Option<&str>),
        credential: &Slug,
    ) -> Answer<(BlueprintVersionId, CredentialId)> {
        let wanted = (blueprint.to_string(), version.map(str::to_owned));
        let found = self.store.named(wanted, credential.to_string()).await.map_err(failure)?;
        if let (Some(version), Some(credential)) = found {
            return Ok((version, credential));
        }
        // These lookups refuse with the name that is missing.
        let version = self.version(blueprint, version).await?.id;
        let credential = self.credential(&Ref::Name(credential.clone())).await?.id;
        Ok((version, credential))
    }

    /// A cloud; refused if it does not exist.
    pub(super) async fn cloud(&self, it: &Ref<CloudId, Slug>) -> Answer<Cloud> {
        let all = self.store.clouds().await.map_err(failure)?;
        let found = all.into_iter().find(|known| match it {
            Ref::Id(id) => known.id == *id,
            Ref::Name(name) => known.name == *name,
        });
        found.ok_or_else(|| Refusal::CloudNotFound { what: display_name(it) }.into())
    }

    /// A credential; refused if it does not exist.
    pub(super) async fn credential(&self, it: &Ref<CredentialId, Slug>) -> Answer<Credential> {
        let all = self.store.credentials().await.map_err(failure)?;
        let found = all.into_iter().find(|known| match it {
            Ref::Id(id) => known.id == *id,
            Ref::Name(name) => known.name == *name,
        });
        found.ok_or_else(|| Refusal::CredentialNotFound { what: display_name(it) }.into())
    }
}

/// The view of a resource, with the names of what it refers to.
pub(super) fn shown(
    resource: &Resource,
    version: Version,
    names: DisplayNames,
) -> Answer<ResourceView> {
    let DisplayNames { name: _, project, blueprint, credential, reason } = names;
    let id = resource.id();
    let broken = |what: &str| Failure::Broken { what: format!("{what} of resource \"{id}\"") };
    let project = project.unwrap_or_else(|| "gone".to_owned());
    Ok(ResourceView {
        resource: resource.clone(),
        version,
        reason: reason.and_then(|it| it.parse().ok()),
        project: project.parse().map_err(|_| broken("the project"))?,
        blueprint: match blueprint {
            Some((name, version)) => {
                Some((name.parse().map_err(|_| broken("the blueprint"))?, version))
            }
            None => None,
        },
        credential: credential.and_then(|it| it.parse().ok()),
        node: None,
    })
}

pub(super) fn not_found(thing: Thing, what: &str) -> Failure {
    Border::NotFound { thing, what: shortened(what) }.into()
}

fn display_name<Id: std::fmt::Display>(it: &Ref<Id, Slug>) -> String {
    match it {
        Ref::Id(id) => id.to_string(),
        Ref::Name(name) => name.to_string(),
    }
}
