//! Blueprints and clouds.

use async_trait::async_trait;
use usher_api::ports::{Answer, Catalog, Clouds, Failure};
use usher_api::refusal::Refusal as Border;
use usher_api::views::{Caller, Imported, NewCloud, Page, Paging, Ref};
use usher_domain::audit::Action;
use usher_domain::broker::refusal::Refusal;
use usher_domain::catalog::lint::{Finding, lint};
use usher_domain::catalog::{Blueprint, BlueprintVersion, Bundle};
use usher_domain::clouds::Cloud;
use usher_domain::object::id::{BlueprintId, BlueprintVersionId, CloudId};
use usher_domain::object::slug::Slug;
use usher_store::Error;
use uuid::Uuid;

use super::{Services, failure, missing, page_of_all};
use crate::clock;

#[async_trait]
impl Catalog for Services {
    async fn list(&self, paging: Paging) -> Answer<Page<Blueprint>> {
        let all = self.store.blueprints().await.map_err(failure)?;
        Ok(page_of_all(all, &paging, |it| it.id.to_string()))
    }

    async fn get(&self, blueprint: &Ref<BlueprintId, Slug>) -> Answer<Blueprint> {
        self.blueprint(blueprint).await
    }

    async fn versions(&self, blueprint: BlueprintId) -> Answer<Vec<BlueprintVersion>> {
        self.blueprint(&Ref::Id(blueprint)).await?;
        self.store.blueprint_versions(blueprint).await.map_err(failure)
    }

    async fn publish(&self, caller: &Caller, bundle: Bundle) -> Answer<Imported> {
        let findings = lint(&bundle);
        if let Some(fatal) = findings.iter().find(|it| it.fatal) {
            let what = format!("{}@{}", bundle.blueprint, bundle.version);
            let why = format!("{}: {}", fatal.at, fatal.text);
            return Err(Border::BlueprintUnsound { what, why }.into());
        }
        let blueprint = self.ensure_blueprint(&bundle.blueprint).await?;
        let all = self.store.blueprint_versions(blueprint.id).await.map_err(failure)?;
        let (name, version) = (bundle.blueprint.clone(), bundle.version.clone());
        let imported = |version, unchanged| Imported {
            version: Some(version),
            blueprint: bundle.blueprint.clone(),
            name: bundle.version.clone(),
            unchanged,
            findings,
        };
        if let Some(known) = all.into_iter().find(|it| it.version == version) {
            if !is_same(&known, &bundle) {
                let what = format!("{name}@{version}");
                return Err(Border::VersionPublished { what }.into());
            }
            return Ok(imported(known, true));
        }
        let published = published(&bundle, blueprint.id);
        let subject = (None, format!("{name}@{version}"));
        let audited = self.with_audit(caller, Action::BlueprintPublish, subject);
        audited.publish(published.clone()).await.map_err(failure)?;
        Ok(imported(published, false))
    }

    async fn import(&self, caller: &Caller, bundles: Vec<Bundle>) -> Answer<Vec<Imported>> {
        let mut all = Vec::new();
        for bundle in bundles {
            let (blueprint, name) = (bundle.blueprint.clone(), bundle.version.clone());
            let mut findings = lint(&bundle);
            match self.publish(caller, bundle).await {
                Ok(imported) => all.push(imported),
                Err(Failure::Refused(refused)) => {
                    if !findings.iter().any(|it| it.fatal) {
                        let (fatal, at) = (true, String::new());
                        let text = refused.text;
                        findings.push(Finding { fatal, at, text });
                    }
                    let (version, unchanged) = (None, false);
                    all.push(Imported { version, blueprint, name, unchanged, findings });
                }
                Err(other) => return Err(other),
            }
        }
        Ok(all)
    }

    async fn delete_version(
        &self,
        caller: &Caller,
        blueprint: BlueprintId,
        version: &str,
    ) -> Answer<()> {
        let all = Catalog::versions(self, blueprint).await?;
        let what = format!("{blueprint}@{version}");
        let refusal = || Refusal::BlueprintNotFound { what: what.clone() };
        let found = all.into_iter().find(|it| it.version == version).ok_or_else(refusal)?;
        let audited = self.with_audit(caller, Action::BlueprintDelete, (None, what.clone()));
        audited.delete_blueprint_version(found.id).await.map_err(missing(refusal()))
    }
}

#[async_trait]
impl Clouds for Services {
    async fn list(&self, paging: Paging) -> Answer<Page<Cloud>> {
        let all = self.store.clouds().await.map_err(failure)?;
        Ok(page_of_all(all, &paging, |it| it.id.to_string()))
    }

    async fn get(&self, cloud: &Ref<CloudId, Slug>) -> Answer<Cloud> {
        self.cloud(cloud).await
    }

    async fn create(&self, caller: &Caller, new: NewCloud) -> Answer<Cloud> {
        let NewCloud { name, provider, endpoint } = new;
        let cloud = Cloud { id: CloudId::from_uuid(Uuid::now_v7()), name, provider, endpoint };
        let audited = self.with_audit(caller, Action::CloudCreate, (None, cloud.name.to_string()));
        audited.create_cloud(cloud.clone()).await.map_err(failure)?;
        Ok(cloud)
    }

    async fn delete(&self, caller: &Caller, id: CloudId) -> Answer<()> {
        let refusal = Refusal::CloudNotFound { what: id.to_string() };
        let audited = self.with_audit(caller, Action::CloudDelete, (None, id.to_string()));
        audited.delete_cloud(id).await.map_err(missing(refusal))
    }
}

impl Services {
    /// The blueprint of this name; created if it does not exist.
    pub(super) async fn ensure_blueprint(&self, name: &Slug) -> Answer<Blueprint> {
        let all = self.store.blueprints().await.map_err(failure)?;
        if let Some(found) = all.into_iter().find(|it| it.name == *name) {
            return Ok(found);
        }
        let id = BlueprintId::from_uuid(Uuid::now_v7());
        let made = Blueprint { id, name: name.clone() };
        match self.store.create_blueprint(made.clone()).await {
            Ok(()) => Ok(made),
            // Another request created it meanwhile.
            Err(Error::Taken { .. }) => self.blueprint(&Ref::Name(name.clone())).await,
            Err(error) => Err(failure(error)),
        }
    }
}

fn published(bundle: &Bundle, blueprint: BlueprintId) -> BlueprintVersion {
    BlueprintVersion {
        id: BlueprintVersionId::from_uuid(Uuid::now_v7()),
        blueprint,
        version: bundle.version.clone(),
        xrd: bundle.xrd.clone(),
        composition: bundle.composition.clone(),
        schema: bundle.schema.clone(),
        strategy: bundle.strategy,
        role: bundle.role,
        providers: bundle.providers.clone(),
        published_at: clock::now(),
    }
}

/// Whether a version was published from an equal bundle.
fn is_same(known: &BlueprintVersion, bundle: &Bundle) -> bool {
    let mut providers = bundle.providers.clone();
    providers.sort();
    let mut published = known.providers.clone();
    published.sort();
    known.xrd == bundle.xrd
        && known.composition == bundle.composition
        && known.schema == bundle.schema
        && known.strategy == bundle.strategy
        && known.role == bundle.role
        && published == providers
}
