//! The port's verbs for the siblings and the sinks.

use std::time::Duration;

use usher_domain::audit;
use usher_domain::catalog::{Blueprint, BlueprintVersion};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::{Assignment, Credential};
use usher_domain::labels::Definition;
use usher_domain::object::id::{
    AuditId, BlueprintId, BlueprintVersionId, CloudId, CredentialId, OperatorTokenId, ProjectId,
    ResourceId, TenancyId,
};
use usher_domain::object::label::Labels;
use usher_domain::object::occupancy::{Occupancy, Occupied};
use usher_domain::object::slug::Slug;
use usher_domain::operators::{OperatorToken, TokenHash};
use usher_domain::placements::Placement;
use usher_domain::projects::{Project, TenancyResource};
use usher_domain::sinks::Sink;
use usher_kernel::Timestamp;

use super::super::port::Port;
use super::super::{accept, sinks};
use super::{catalog, credentials, labels, operators, projects};
use crate::error::Error;
use crate::port::{Cursor, Layer};
use crate::sinks::{Beginning, Settlement, SinkState};

/// Verbs that are one transaction each.
macro_rules! writes {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(&self, $($arg: $kind),*) -> Result<$answer, Error> {
                self.door.write(move |$conn| Box::pin(async move { $call.await })).await
            }
        )+}
    };
}

/// Verbs that are one read each.
macro_rules! reads {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(&self, $($arg: $kind),*) -> Result<$answer, Error> {
                let $conn = &mut *self.door.read().await?;
                $call.await
            }
        )+}
    };
}

/// Verbs that are one transaction each, with a row of the audit log if somebody ordered it.
macro_rules! orders {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(
                &self,
                $($arg: $kind,)*
                audit: Option<audit::Entry>,
            ) -> Result<(), Error> {
                self.door
                    .write(move |$conn| {
                        Box::pin(async move {
                            $call.await?;
                            accept::note_order($conn, audit.as_ref()).await
                        })
                    })
                    .await
            }
        )+}
    };
}

orders! {
    fn create_project(it: Project)
        = |conn| projects::create(conn, &it);
    fn delete_project(id: ProjectId)
        = |conn| projects::delete(conn, id);
    fn place_project(it: Placement)
        = |conn| projects::place(conn, &it);
    fn move_placement(before: Placement, after: Placement)
        = |conn| projects::move_placement(conn, &before, &after);
    fn displace_project(project: ProjectId)
        = |conn| projects::displace(conn, project);
    fn create_blueprint(it: Blueprint)
        = |conn| catalog::create_blueprint(conn, &it);
    fn publish(it: BlueprintVersion)
        = |conn| catalog::publish(conn, &it);
    fn delete_blueprint_version(id: BlueprintVersionId)
        = |conn| catalog::delete_version(conn, id);
    fn create_cloud(it: Cloud)
        = |conn| catalog::create_cloud(conn, &it);
    fn delete_cloud(id: CloudId)
        = |conn| catalog::delete_cloud(conn, id);
    fn create_credential(it: Credential)
        = |conn| credentials::create(conn, &it);
    fn revoke_credential(id: CredentialId, at: Timestamp)
        = |conn| credentials::revoke(conn, id, at);
    fn delete_credential(id: CredentialId)
        = |conn| credentials::delete(conn, id);
    fn assign(it: Assignment)
        = |conn| credentials::assign(conn, &it);
    fn decide_assignment(before: Assignment, after: Assignment)
        = |conn| credentials::decide(conn, &before, &after);
    fn unassign(project: ProjectId, credential: CredentialId)
        = |conn| credentials::unassign(conn, project, credential);
    fn write_labels(layer: Layer, it: Labels)
        = |conn| labels::write(conn, layer, &it);
    fn define_label(it: Definition)
        = |conn| labels::define(conn, &it);
    fn create_operator_token(it: OperatorToken)
        = |conn| operators::create(conn, &it);
    fn revoke_operator_token(id: OperatorTokenId, at: Timestamp)
        = |conn| operators::revoke(conn, id, at);
}

impl Port {
    /// A placement that is occupied does not end, and nothing was ordered then.
    pub(crate) async fn terminate_placement(
        &self,
        project: ProjectId,
        audit: Option<audit::Entry>,
    ) -> Result<Result<Placement, Occupied>, Error> {
        self.door
            .write(move |conn| {
                Box::pin(async move {
                    let ended = projects::terminate(conn, project).await?;
                    if ended.is_ok() {
                        accept::note_order(conn, audit.as_ref()).await?;
                    }
                    Ok(ended)
                })
            })
            .await
    }
}

writes! {
    fn settle_sink(it: Settlement) -> bool = |conn| sinks::settle(conn, &it);
    fn lease_sink(name: Slug, span: Duration) -> Option<SinkState>
        = |conn| sinks::lease(conn, &name, span);
    fn note(it: audit::Entry) -> () = |conn| accept::note(conn, &[&it]);
    fn forget_keys(count: u32) -> u64 = |conn| operators::forget_keys(conn, count);
}

/// Verbs that are one transaction each and wake the relay.
macro_rules! sink_writes {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(&self, $($arg: $kind),*) -> Result<(), Error> {
                let done =
                    self.door.write(move |$conn| Box::pin(async move { $call.await })).await;
                self.signals.sinks_changed();
                done
            }
        )+}
    };
}

sink_writes! {
    fn create_sink(it: Sink, from: Beginning) = |conn| sinks::create(conn, &it, from);
    fn change_sink(it: Sink) = |conn| sinks::change(conn, &it);
    fn delete_sink(name: Slug) = |conn| sinks::delete(conn, &name);
    fn park_sink(name: Slug) = |conn| sinks::park(conn, &name);
    fn resume_sink(name: Slug, from: Option<Cursor>) = |conn| sinks::resume(conn, &name, from);
}

reads! {
    fn sinks() -> Vec<SinkState> = |conn| sinks::list(conn);
    fn sink(name: &Slug) -> Option<SinkState> = |conn| sinks::find(conn, name);
    fn projects(after: Option<ProjectId>, count: u32) -> Vec<Project>
        = |conn| projects::list(conn, after, count);
    fn project(slug: &str) -> Option<Project> = |conn| projects::find(conn, slug);
    fn placement(project: ProjectId) -> Option<Placement>
        = |conn| projects::placement(conn, project);
    fn occupancy(project: ProjectId) -> Occupancy = |conn| projects::occupancy(conn, project);
    fn tenancy(id: TenancyId) -> Option<TenancyResource> = |conn| projects::tenancy(conn, id);
    fn find_resources(project: Option<ProjectId>, name: &str) -> Vec<ResourceId>
        = |conn| projects::find_resources(conn, project, name);
    fn resources(project: ProjectId, after: Option<ResourceId>, count: u32) -> Vec<ResourceId>
        = |conn| projects::resources(conn, project, after, count);
    fn blueprints() -> Vec<Blueprint> = |conn| catalog::blueprints(conn);
    fn blueprint_versions(blueprint: BlueprintId) -> Vec<BlueprintVersion>
        = |conn| catalog::versions(conn, blueprint);
    fn named(blueprint: (String, Option<String>), credential: String)
        -> (Option<BlueprintVersionId>, Option<CredentialId>)
        = |conn| catalog::named(conn, blueprint, credential);
    fn clouds() -> Vec<Cloud> = |conn| catalog::clouds(conn);
    fn credentials() -> Vec<Credential> = |conn| credentials::list(conn);
    fn assignments(project: ProjectId) -> Vec<Assignment>
        = |conn| credentials::assignments(conn, project);
    fn labels(layer: Layer) -> Labels = |conn| labels::read(conn, layer);
    fn label_definitions() -> Vec<Definition> = |conn| labels::definitions(conn);
    fn operator_tokens(after: Option<OperatorTokenId>, count: u32) -> Vec<OperatorToken>
        = |conn| operators::list(conn, after, count);
    fn operator_token(hash: TokenHash) -> Option<OperatorToken>
        = |conn| operators::find(conn, hash);
    fn audit(after: Option<AuditId>, count: u32) -> Vec<audit::Entry>
        = |conn| operators::audit(conn, after, count);
}
