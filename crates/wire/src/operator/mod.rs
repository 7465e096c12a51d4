//! The messages between operators and the control plane: JSON over HTTP.
//!
//! Times are RFC 3339 in UTC, ids are lower-case UUIDs, enums are words. Readers ignore unknown
//! fields
//! of an answer; a request with an unknown field is refused. `usher -o json` prints the answers.

mod fleet;
mod tenancy;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::Secret;

pub use fleet::{
    Aim, ClusterStatus, Demand, DemandOutcome, FleetPlan, Machine, MachineWhy, Need, NeedStatus,
    Requirement, SetDryRun, SettleMachine, Shard, WriteDemand,
};
pub use tenancy::{
    Assignment, AuditEntry, Blueprint, BlueprintVersion, Check, Cloud, Credential, Finding,
    Imported, IssuedOperatorToken, Labels, Node, OperatorToken, Placement, Project, Ready,
    RotateKey, ServerKey, Tenancy, Token, VerifyReceipt, Whoami,
};

/// Declares bodies: requests refuse unknown fields, answers ignore them.
macro_rules! bodies {
    (@one request $(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name { $($fields)* }
    };
    (@one answer $(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub struct $name { $($fields)* }
    };
    ($($way:ident $(#[$doc:meta])* $name:ident { $($fields:tt)* })+) => {
        $(bodies!(@one $way $(#[$doc])* $name { $($fields)* });)+
    };
}

pub(crate) use bodies;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List<T> {
    pub items: Vec<T>,
    /// The `after` of the next page, if there is one.
    pub next_cursor: Option<String>,
}

bodies! {
    request
    /// A declaration.
    Provision {
        /// Unique among the resources of the project.
        pub name: String,
        /// The project, by slug or id.
        pub project: String,
        /// The blueprint.
        pub blueprint: String,
        /// Its version (default: the newest).
        #[serde(default)]
        pub version: Option<String>,
        /// The credential.
        pub credential: String,
        /// The parameters.
        #[serde(default)]
        pub parameters: Map<String, Value>,
    }

    request
    /// Abandons a resource.
    Abandon {
        /// The reason.
        pub reason: String,
    }

    request
    /// Creates a project.
    CreateProject {
        /// The name in commands and paths.
        pub slug: String,
        /// The display name (default: the slug).
        #[serde(default)]
        pub name: Option<String>,
    }

    request
    /// Places a project on a world.
    PlaceProject {
        /// The world.
        pub world: String,
    }

    request
    /// One version of one blueprint.
    Bundle {
        /// The blueprint; created if there is none.
        pub blueprint: String,
        /// The name of the version.
        pub version: String,
        /// The XRD.
        pub xrd: Value,
        /// The composition.
        pub composition: Value,
        /// The parameters it takes.
        #[serde(default)]
        pub parameters: Vec<Value>,
        /// How a token reaches the machine.
        pub strategy: String,
        /// Whether there is a machine to enrol (default: `node`).
        #[serde(default)]
        pub role: Option<String>,
        /// The providers it runs on.
        pub providers: Vec<String>,
    }

    request
    /// Several bundles.
    ImportBlueprints {
        /// The bundles.
        pub bundles: Vec<Bundle>,
    }

    request
    /// Creates a cloud.
    CreateCloud {
        /// Its name.
        pub name: String,
        /// The provider.
        pub provider: String,
        /// Provider-specific settings; no secrets.
        #[serde(default)]
        pub endpoint: Map<String, Value>,
    }

    request
    /// Creates a credential: its coordinates, never its value.
    CreateCredential {
        /// Its name.
        pub name: String,
        /// The cloud it was issued for, by name or id.
        pub cloud: String,
        /// The mount of the key-value store.
        pub mount: String,
        /// The path below the mount.
        pub path: String,
        /// When it expires.
        #[serde(default)]
        pub expires_at: Option<String>,
    }

    request
    /// Requests a credential for a project.
    RequestAssignment {
        /// The credential, by name or id.
        pub credential: String,
    }

    request
    /// Replaces the labels of one layer.
    WriteLabels {
        /// The labels.
        pub labels: BTreeMap<String, String>,
    }

    request
    /// Creates an operator's token.
    CreateOperatorToken {
        /// Its name.
        pub name: String,
        /// `viewer`, `operator` or `admin`.
        pub role: String,
        /// The project it is for, by slug or id.
        #[serde(default)]
        pub project: Option<String>,
        /// When it expires.
        #[serde(default)]
        pub expires_at: Option<String>,
    }

    request
    /// The definition of a label key; also the answer.
    LabelDefinition {
        /// The key.
        pub key: String,
        /// Whether labels with this key become tags of cloud objects.
        #[serde(default)]
        pub propagatable: bool,
    }

    answer
    /// A resource.
    Resource {
        /// Its id.
        pub id: String,
        /// Unique among the resources of the project.
        pub name: String,
        /// The slug of its project.
        pub project: String,
        /// The id of its project.
        pub project_id: String,
        /// Its phase.
        pub phase: String,
        /// The reason of its phase; absent before the first reconciliation.
        pub reason: Option<String>,
        /// Its generation.
        pub generation: u64,
        /// The version of its record.
        pub version: u64,
        /// The blueprint, if it still exists.
        pub blueprint: Option<String>,
        /// The blueprint's version.
        pub blueprint_version: Option<String>,
        /// The credential, if it still exists.
        pub credential: Option<String>,
        /// The parameters, with defaults.
        pub parameters: Value,
        /// The world it is placed in.
        pub world: String,
        /// The namespace there.
        pub namespace: String,
        /// The tenancy resource behind it.
        pub tenancy: String,
        /// When it was accepted.
        pub created_at: String,
        /// When its record last changed.
        pub updated_at: String,
        /// Since when it is in its phase.
        pub phase_since: String,
        /// When its deletion was requested.
        pub deletion_requested_at: Option<String>,
        /// How it ended.
        pub outcome: Option<String>,
        /// Whether the heartbeats of its node arrive: `live`, `lost` or `unknown`.
        pub node: Option<String>,
    }

    answer
    /// Something that keeps a resource or machine in its phase.
    Blocker {
        /// Its kind.
        pub kind: String,
        /// Its name.
        pub name: String,
        /// Since when, if that is known.
        pub since: Option<String>,
        /// One sentence.
        pub text: String,
    }

    answer
    /// An applicable runbook entry.
    Advice {
        /// The symptom.
        pub symptom: String,
        /// Its cause.
        pub diagnosis: String,
        /// What to do: a sentence or a command.
        pub remedy: String,
    }

    answer
    /// The explanation of a resource's phase.
    Why {
        /// The resource.
        pub resource: Resource,
        /// What it waits for or does, in one sentence.
        pub summary: String,
        /// What blocks it.
        pub blockers: Vec<Blocker>,
        /// Applicable runbook entries.
        pub advice: Vec<Advice>,
        /// Failed attempts since the last completed step.
        pub attempts: u32,
        /// When it is reconciled next; absent if only a wake-up does.
        pub next_reconcile_at: Option<String>,
        /// Whether it waits for an operator to retry it.
        pub parked: bool,
        /// The error of the last step, if it failed.
        pub trouble: Option<String>,
    }

    answer
    /// The name of an external object.
    Name {
        /// Its kind.
        pub kind: String,
        /// Its namespace, or empty.
        pub place: String,
        /// Its name.
        pub name: String,
        /// The generation it belongs to.
        pub generation: u64,
    }

    answer
    /// One step of a plan.
    PlanStep {
        /// The phase of the step.
        pub phase: String,
        /// Its reason.
        pub reason: String,
        /// The effect; absent if it waits.
        pub effect: Option<String>,
        /// The object it is applied to.
        pub name: Option<Name>,
    }

    answer
    /// What a deletion would do.
    Plan {
        /// The resource.
        pub resource: Resource,
        /// Its steps in order.
        pub steps: Vec<PlanStep>,
        /// What would block it.
        pub blockers: Vec<Blocker>,
    }

    answer
    /// What the state of a name is based on.
    Evidence {
        /// The authority that answered.
        pub by: String,
        /// Its answer.
        pub answer: String,
        /// When it answered.
        pub at: String,
    }

    answer
    /// One row of the name ledger.
    ReceiptRow {
        /// The name.
        #[serde(flatten)]
        pub name: Name,
        /// Counts the objects that had the name.
        pub incarnation: u32,
        /// `intended`, `seen`, `gone`, `foreign` or `abandoned`.
        pub state: String,
        /// The uid of the object that was seen.
        pub uid: Option<String>,
        /// What the state is based on.
        pub evidence: Evidence,
    }

    answer
    /// The ProviderConfig a resource shares.
    SharedConfig {
        /// Its id.
        pub id: String,
        /// Its own names.
        pub rows: Vec<ReceiptRow>,
    }

    answer
    /// Every external name a resource ever had, with its state.
    Receipt {
        /// The resource.
        pub resource: Resource,
        /// Whether every name is gone, foreign or abandoned.
        pub settled: bool,
        /// The names.
        pub rows: Vec<ReceiptRow>,
        /// The ProviderConfig it shares.
        pub provider_config: Option<SharedConfig>,
        /// The server key of the code.
        pub key_id: String,
        /// The message authentication code of the other fields, in base64url.
        pub mac: String,
    }

    answer
    /// An external object that no active record accounts for.
    Orphan {
        /// Its world.
        pub world: String,
        /// Its kind.
        pub kind: String,
        /// Its namespace, or empty.
        pub place: String,
        /// Its name.
        pub name: String,
        /// Its uid, if it was seen.
        pub uid: Option<String>,
        /// The resource that its labels name.
        pub resource: Option<String>,
        /// Why it has no owner.
        pub cause: String,
        /// Whether it may be reaped.
        pub reapable: bool,
    }

    answer
    /// The mass-deletion guard of a world.
    Guard {
        /// The world.
        pub world: String,
        /// Since when the guard distrusts absence, if it tripped.
        pub tripped_at: Option<String>,
        /// Objects that vanished unasked within the window.
        pub vanished: u32,
        /// Objects that were present.
        pub present: u32,
    }

    answer
    /// One entry of the event log.
    Event {
        /// Its id, the same in every delivery.
        pub id: String,
        /// The event type.
        #[serde(rename = "type")]
        pub kind: String,
        /// The resource it is about, if any.
        pub resource: Option<String>,
        /// The machine it is about, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub machine: Option<String>,
        /// Its project, if any.
        pub project: Option<String>,
        /// The version of the record.
        pub version: u64,
        /// When it occurred.
        pub occurred_at: String,
        /// Details by event type.
        pub data: Map<String, Value>,
    }
}
