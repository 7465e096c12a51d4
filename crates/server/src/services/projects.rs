//! Projects and their placements.

use async_trait::async_trait;
use usher_api::ports::{Answer, Projects};
use usher_api::refusal::Thing;
use usher_api::views::{Caller, NewProject, Page, Paging, Ref};
use usher_domain::audit::Action;
use usher_domain::broker::refusal::Refusal;
use usher_domain::object::id::{ProjectId, TenancyId};
use usher_domain::placements::{NamespacePhase, Placement};
use usher_domain::projects::{Project, ProjectSlug, TenancyResource};
use usher_store::Error;
use uuid::Uuid;

use super::names::not_found;
use super::{Services, after, failure, missing, page};

#[async_trait]
impl Projects for Services {
    async fn list(&self, paging: Paging) -> Answer<Page<Project>> {
        let count = paging.limit.saturating_add(1);
        let items = self.store.projects(after(&paging)?, count).await.map_err(failure)?;
        Ok(page(items, &paging, |it| it.id.to_string()))
    }

    async fn get(&self, project: &Ref<ProjectId, ProjectSlug>) -> Answer<Project> {
        match project {
            Ref::Id(id) => self.project(*id).await,
            Ref::Name(slug) => {
                let found = self.store.project(slug.as_str()).await.map_err(failure)?;
                found.ok_or_else(|| not_found(Thing::Project, slug.as_str()))
            }
        }
    }

    async fn create(&self, caller: &Caller, new: NewProject) -> Answer<Project> {
        let id = ProjectId::from_uuid(Uuid::now_v7());
        let project = Project { id, slug: new.slug, name: new.name };
        let subject = (Some(id), project.slug.to_string());
        let audited = self.with_audit(caller, Action::ProjectCreate, subject);
        audited.create_project(project.clone()).await.map_err(failure)?;
        Ok(project)
    }

    async fn delete(&self, caller: &Caller, id: ProjectId) -> Answer<()> {
        let project = self.project(id).await?;
        let occupancy = self.store.occupancy(id).await.map_err(failure)?;
        project.may_terminate(occupancy)?;
        let unknown = not_found(Thing::Project, &id.to_string());
        // A terminating placement without resources is deleted with its project.
        if let Some(placement) = self.store.placement(id).await.map_err(failure)?
            && !placement.ready()
        {
            self.store.displace_project(id).await.map_err(failure)?;
        }
        let audited =
            self.with_audit(caller, Action::ProjectDelete, (None, project.slug.to_string()));
        audited.delete_project(id).await.map_err(missing(unknown))
    }

    async fn placements(&self, paging: Paging) -> Answer<Page<Placement>> {
        let count = paging.limit.saturating_add(1);
        let items = self.store.placements(after(&paging)?, count).await.map_err(failure)?;
        Ok(page(items, &paging, |it| it.project.to_string()))
    }

    async fn placement(&self, project: ProjectId) -> Answer<Placement> {
        let found = self.store.placement(project).await.map_err(failure)?;
        found.ok_or_else(|| Refusal::AssignmentNotFound { what: project.to_string() }.into())
    }

    async fn place(&self, caller: &Caller, project: ProjectId, world: &str) -> Answer<Placement> {
        if !self.worlds.has(world) {
            return Err(not_found(Thing::World, world));
        }
        // Nothing has to be created in this world: every namespace exists.
        let phase = NamespacePhase::Ready;
        let placement = Placement { project, world: world.to_owned(), phase };
        let unknown = not_found(Thing::Project, &project.to_string());
        let subject = (Some(project), world.to_owned());
        let audited = self.with_audit(caller, Action::PlacementCreate, subject);
        audited.place_project(placement.clone()).await.map_err(missing(unknown))?;
        Ok(placement)
    }

    async fn terminate_placement(&self, caller: &Caller, project: ProjectId) -> Answer<Placement> {
        let unknown = Refusal::AssignmentNotFound { what: project.to_string() };
        let placed = self.store.placement(project).await.map_err(failure)?;
        let world = placed.map(|it| it.world).unwrap_or_default();
        let audited = self.with_audit(caller, Action::PlacementTerminate, (Some(project), world));
        let ended = audited.terminate_placement(project).await.map_err(missing(unknown))??;
        // Nothing has to be torn down in this world.
        match self.store.displace_project(project).await {
            Ok(()) | Err(Error::NotFound { .. } | Error::Held { .. }) => Ok(ended),
            Err(error) => Err(failure(error)),
        }
    }

    async fn tenancy(&self, id: TenancyId) -> Answer<TenancyResource> {
        let found = self.store.tenancy(id).await.map_err(failure)?;
        found.ok_or_else(|| not_found(Thing::Tenancy, &id.to_string()))
    }
}
