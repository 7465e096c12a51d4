//! Credentials and their assignments to projects.

use std::collections::HashMap;

use async_trait::async_trait;
use usher_api::ports::{Answer, Credentials};
use usher_api::views::{
    AssignmentKey, AssignmentView, Caller, CredentialView, NewCredential, Page, Paging, Ref,
};
use usher_domain::audit::Action;
use usher_domain::broker::refusal::Refusal;
use usher_domain::credentials::{Assignment, Credential, UseRefusal, Verdict};
use usher_domain::object::id::{CredentialId, ProjectId};
use usher_domain::object::slug::Slug;
use usher_store::Error;
use uuid::Uuid;

use super::{Services, failure, missing, page_of_all};

#[async_trait]
impl Credentials for Services {
    async fn list(&self, paging: Paging) -> Answer<Page<CredentialView>> {
        let all = self.store.credentials().await.map_err(failure)?;
        let listed = page_of_all(all, &paging, |it| it.id.to_string());
        let items = self.shown(listed.items).await?;
        Ok(Page { items, next: listed.next })
    }

    async fn get(&self, credential: &Ref<CredentialId, Slug>) -> Answer<CredentialView> {
        self.shown_one(self.credential(credential).await?).await
    }

    async fn create(&self, caller: &Caller, new: NewCredential) -> Answer<CredentialView> {
        let cloud = self.cloud(&new.cloud).await?;
        let credential = Credential {
            id: CredentialId::from_uuid(Uuid::now_v7()),
            name: new.name,
            cloud: cloud.id,
            provider: cloud.provider,
            coordinates: new.coordinates,
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let subject = (None, credential.name.to_string());
        let audited = self.with_audit(caller, Action::CredentialCreate, subject);
        audited.create_credential(credential.clone()).await.map_err(failure)?;
        self.shown_one(credential).await
    }

    async fn revoke(&self, caller: &Caller, id: CredentialId) -> Answer<CredentialView> {
        let now = self.store.now().await.map_err(failure)?;
        let refusal = Refusal::CredentialNotFound { what: id.to_string() };
        let audited = self.with_audit(caller, Action::CredentialRevoke, (None, id.to_string()));
        audited.revoke_credential(id, now).await.map_err(missing(refusal))?;
        Credentials::get(self, &Ref::Id(id)).await
    }

    async fn delete(&self, caller: &Caller, id: CredentialId) -> Answer<()> {
        let refusal = Refusal::CredentialNotFound { what: id.to_string() };
        let audited = self.with_audit(caller, Action::CredentialDelete, (None, id.to_string()));
        audited.delete_credential(id).await.map_err(missing(refusal))
    }

    async fn assignments(&self, project: ProjectId) -> Answer<Vec<AssignmentView>> {
        let all = self.store.assignments(project).await.map_err(failure)?;
        if all.is_empty() {
            return Ok(vec![]);
        }
        let project = self.project(project).await?.slug;
        let names = self.store.credentials().await.map_err(failure)?;
        let names: HashMap<_, _> = names.into_iter().map(|it| (it.id, it.name)).collect();
        let view = |assignment: Assignment| {
            let credential = names.get(&assignment.credential).cloned().ok_or_else(|| {
                Refusal::CredentialNotFound { what: assignment.credential.to_string() }
            })?;
            Ok(AssignmentView { assignment, project: project.clone(), credential })
        };
        all.into_iter().map(view).collect()
    }

    async fn request(&self, caller: &Caller, key: AssignmentKey) -> Answer<AssignmentView> {
        let credential = self.credential(&key.credential).await?;
        let project = self.project(key.project).await?;
        let by = caller.name.to_string();
        let assignment = Assignment::request(project.id, credential.id, &by);
        let subject = (Some(project.id), credential.name.to_string());
        let audited = self.with_audit(caller, Action::AssignmentRequest, subject);
        audited.assign(assignment.clone()).await.map_err(failure)?;
        self.assigned(assignment).await
    }

    async fn decide(
        &self,
        caller: &Caller,
        key: AssignmentKey,
        verdict: Verdict,
    ) -> Answer<AssignmentView> {
        let now = self.store.now().await.map_err(failure)?;
        let before = self.assignment(&key).await?;
        let after = before.decide(verdict, caller.name.as_str(), now)?;
        let action = match verdict {
            Verdict::Approve => Action::AssignmentApprove,
            Verdict::Reject => Action::AssignmentReject,
            Verdict::Revoke => Action::AssignmentRevoke,
        };
        let subject = (Some(key.project), after.credential.to_string());
        let audited = self.with_audit(caller, action, subject);
        audited.decide_assignment(before, after.clone()).await.map_err(failure)?;
        self.assigned(after).await
    }

    async fn unassign(&self, caller: &Caller, key: AssignmentKey) -> Answer<()> {
        let Assignment { project, credential, .. } = self.assignment(&key).await?;
        let subject = (Some(project), credential.to_string());
        let audited = self.with_audit(caller, Action::AssignmentRevoke, subject);
        match audited.unassign(project, credential).await {
            // Another request removed it meanwhile.
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failure(error)),
        }
    }
}

impl Services {
    /// Credentials with the names of their clouds.
    async fn shown(&self, credentials: Vec<Credential>) -> Answer<Vec<CredentialView>> {
        let now = self.store.now().await.map_err(failure)?;
        let clouds = self.store.clouds().await.map_err(failure)?;
        let clouds: HashMap<_, _> = clouds.into_iter().map(|it| (it.id, it.name)).collect();
        let view = |credential: Credential| {
            let cloud = clouds
                .get(&credential.cloud)
                .cloned()
                .ok_or_else(|| Refusal::CloudNotFound { what: credential.cloud.to_string() })?;
            let status = credential.status(now);
            Ok(CredentialView { credential, cloud, status })
        };
        credentials.into_iter().map(view).collect()
    }

    async fn shown_one(&self, credential: Credential) -> Answer<CredentialView> {
        let id = credential.id;
        let shown = self.shown(vec![credential]).await?.pop();
        shown.ok_or_else(|| Refusal::CredentialNotFound { what: id.to_string() }.into())
    }

    async fn assignment(&self, key: &AssignmentKey) -> Answer<Assignment> {
        let credential = self.credential(&key.credential).await?.id;
        let all = self.store.assignments(key.project).await.map_err(failure)?;
        let found = all.into_iter().find(|it| it.credential == credential);
        let project = key.project;
        found.ok_or_else(|| UseRefusal::NotAssigned { credential, project }.into())
    }

    async fn assigned(&self, assignment: Assignment) -> Answer<AssignmentView> {
        let project = self.project(assignment.project).await?.slug;
        let credential = self.credential(&Ref::Id(assignment.credential)).await?.name;
        Ok(AssignmentView { assignment, project, credential })
    }
}
