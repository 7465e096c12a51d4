//! The store's methods for tenancy: projects, catalog, credentials, labels, operators, audit.

use usher_domain::audit;
use usher_domain::catalog::{Blueprint, BlueprintVersion};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::{Assignment, Credential};
use usher_domain::labels::Definition;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{
    AuditId, BlueprintId, BlueprintVersionId, CloudId, CredentialId, OperatorTokenId, ProjectId,
    TenancyId,
};
use usher_domain::object::label::Labels;
use usher_domain::object::occupancy::{Occupancy, Occupied};
use usher_domain::operators::{OperatorToken, TokenHash};
use usher_domain::peers::Peer;
use usher_domain::placements::Placement;
use usher_domain::projects::{Project, TenancyResource};
use usher_kernel::Timestamp;

use crate::error::Error;
use crate::port::Layer;
use crate::store::{Inner, Store, verbs};

/// The next write, and the row of the audit log that goes with it in one transaction.
#[derive(Debug)]
#[must_use]
pub struct WithAudit<'s> {
    store: &'s Store,
    entry: audit::Entry,
}

impl Store {
    /// Attaches an audit row to the next write.
    pub const fn with_audit(&self, entry: audit::Entry) -> WithAudit<'_> {
        WithAudit { store: self, entry }
    }
}

/// Declares audited methods that both databases have.
macro_rules! audited_methods {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)+) => {
        impl Store {$(
            $(#[$doc])*
            pub async fn $name(&self, $($arg: $kind),*) -> $answer {
                match &self.inner {
                    Inner::Postgres(port) => port.$name($($arg,)* None).await,
                    Inner::Sqlite(port) => port.$name($($arg,)* None).await,
                }
            }
        )+}

        impl WithAudit<'_> {$(
            $(#[$doc])*
            pub async fn $name(self, $($arg: $kind),*) -> $answer {
                match &self.store.inner {
                    Inner::Postgres(port) => port.$name($($arg,)* Some(self.entry)).await,
                    Inner::Sqlite(port) => port.$name($($arg,)* Some(self.entry)).await,
                }
            }
        )+}
    };
}

audited_methods! {
    /// Creates a project.
    fn create_project(it: Project) -> Result<(), Error>;
    /// Removes a project without resources and tombstones.
    fn delete_project(id: ProjectId) -> Result<(), Error>;
    /// Places a project on a world.
    fn place_project(it: Placement) -> Result<(), Error>;
    /// Writes how far a placement is, if it still is where it was read.
    fn move_placement(before: Placement, after: Placement) -> Result<(), Error>;
    /// Terminates a placement, unless it holds resources or tombstones.
    fn terminate_placement(project: ProjectId) -> Result<Result<Placement, Occupied>, Error>;
    /// Removes the placement of a project without resources and tombstones.
    fn displace_project(project: ProjectId) -> Result<(), Error>;
    /// Creates a blueprint without versions.
    fn create_blueprint(it: Blueprint) -> Result<(), Error>;
    /// Publishes a blueprint version; nothing ever changes it.
    fn publish(it: BlueprintVersion) -> Result<(), Error>;
    /// Removes a blueprint version without resources that are not deleted.
    fn delete_blueprint_version(id: BlueprintVersionId) -> Result<(), Error>;
    /// Creates a cloud.
    fn create_cloud(it: Cloud) -> Result<(), Error>;
    /// Removes a cloud without credentials.
    fn delete_cloud(id: CloudId) -> Result<(), Error>;
    /// Creates a credential.
    fn create_credential(it: Credential) -> Result<(), Error>;
    /// Withdraws a credential; the first time counts.
    fn revoke_credential(id: CredentialId, at: Timestamp) -> Result<(), Error>;
    /// Removes a credential that no project uses or may use.
    fn delete_credential(id: CredentialId) -> Result<(), Error>;
    /// Creates an assignment.
    fn assign(it: Assignment) -> Result<(), Error>;
    /// Writes a verdict about an assignment, if it still is where it was read.
    fn decide_assignment(before: Assignment, after: Assignment) -> Result<(), Error>;
    /// Removes an assignment.
    fn unassign(project: ProjectId, credential: CredentialId) -> Result<(), Error>;
    /// Writes the labels of one layer: these and no others.
    fn write_labels(layer: Layer, it: Labels) -> Result<(), Error>;
    /// Defines a label key; the last definition counts.
    fn define_label(it: Definition) -> Result<(), Error>;
    /// Creates an operator's token.
    fn create_operator_token(it: OperatorToken) -> Result<(), Error>;
    /// Withdraws an operator's token; the first time counts.
    fn revoke_operator_token(id: OperatorTokenId, at: Timestamp) -> Result<(), Error>;
    /// Writes the drain stage of a peer, if it was not moved since.
    fn move_peer(before: Peer, after: Peer) -> Result<(), Error>;
    /// Makes a new key current, if the other one still is and none before it is in use: a node may
    /// hold the secret of a current key before its row says so.
    fn rotate_key(from: KeyId, to: KeyId) -> Result<(), Error>;
    /// Trips the mass-deletion guard of a pinned world, or resets it and wakes every item; `false`
    /// if it was so.
    fn set_guard(name: String, tripped: bool) -> Result<bool, Error>;
}

verbs! {
    /// Writes one row of the audit log.
    fn note(it: audit::Entry) -> Result<(), Error>;
    /// Deletes expired idempotency keys, up to so many.
    fn forget_keys(count: u32) -> Result<u64, Error>;
    /// Finds a project by its id.
    fn project_of(id: ProjectId) -> Result<Option<Project>, Error>;
    /// Reads projects after an id, in the order of their ids.
    fn projects(after: Option<ProjectId>, count: u32) -> Result<Vec<Project>, Error>;
    /// Finds a project by its slug.
    fn project(slug: &str) -> Result<Option<Project>, Error>;
    /// Reads where a project is placed.
    fn placement(project: ProjectId) -> Result<Option<Placement>, Error>;
    /// Lists placements after a project, in the order of their projects.
    fn placements(after: Option<ProjectId>, count: u32) -> Result<Vec<Placement>, Error>;
    /// Counts what a project still holds.
    fn occupancy(project: ProjectId) -> Result<Occupancy, Error>;
    /// Reads a tenancy resource.
    fn tenancy(id: TenancyId) -> Result<Option<TenancyResource>, Error>;
    /// Reads every blueprint.
    fn blueprints() -> Result<Vec<Blueprint>, Error>;
    /// Reads the versions of a blueprint, oldest first.
    fn blueprint_versions(blueprint: BlueprintId) -> Result<Vec<BlueprintVersion>, Error>;
    /// Finds what a declaration names: a version of a blueprint, the newest one unless one is
    /// named, and a credential. What does not exist is omitted.
    fn named(
        blueprint: (String, Option<String>), credential: String
    ) -> Result<(Option<BlueprintVersionId>, Option<CredentialId>), Error>;
    /// Reads every cloud.
    fn clouds() -> Result<Vec<Cloud>, Error>;
    /// Reads every credential.
    fn credentials() -> Result<Vec<Credential>, Error>;
    /// Reads the assignments of a project.
    fn assignments(project: ProjectId) -> Result<Vec<Assignment>, Error>;
    /// Reads the labels of one layer.
    fn labels(layer: Layer) -> Result<Labels, Error>;
    /// Reads what is known of label keys.
    fn label_definitions() -> Result<Vec<Definition>, Error>;
    /// Finds an operator's token by its hash.
    fn operator_token(hash: TokenHash) -> Result<Option<OperatorToken>, Error>;
    /// Reads operators' tokens after an id, in the order of their ids.
    fn operator_tokens(
        after: Option<OperatorTokenId>, count: u32
    ) -> Result<Vec<OperatorToken>, Error>;
    /// Reads the audit log after an id, in its order.
    fn audit(after: Option<AuditId>, count: u32) -> Result<Vec<audit::Entry>, Error>;
}
