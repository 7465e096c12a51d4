//! What operators and the control plane say to each other, over HTTP with JSON bodies.
//!
//! Times are RFC 3339 in UTC, ids are UUIDs in their one spelling, enums are words. What an answer
//! holds beyond what a reader knows, the reader ignores; a request with a field that nobody knows
//! is refused. The answers are also what `usher -o json` prints.

mod fleet;
mod siblings;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::Secret;

pub use fleet::{
    Aim, ClusterStanding, Demand, FleetPlan, HeardDemand, Machine, MachineWhy, Need, NeedStanding,
    Requirement, SetDryRun, SettleMachine, Shard, WriteDemand,
};
pub use siblings::{
    Assignment, AuditEntry, Blueprint, BlueprintVersion, Check, Cloud, Credential, Finding,
    Imported, IssuedOperatorToken, Labels, Node, OperatorToken, Placement, Project, Ready, Tenancy,
    Token, Whoami,
};

/// Declares bodies: what goes in refuses unknown fields, what comes out is read leniently.
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

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct List<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
}

bodies! {
    request
    /// A declaration.
    Provision {
        /// What its people call it.
        pub name: String,
        /// The project, by slug or id.
        pub project: String,
        /// The blueprint.
        pub blueprint: String,
        /// Its version; nothing means the newest.
        #[serde(default)]
        pub version: Option<String>,
        /// The credential.
        pub credential: String,
        /// The parameters.
        #[serde(default)]
        pub parameters: Map<String, Value>,
    }

    request
    /// Why a resource is given up.
    Abandon {
        /// The reason.
        pub reason: String,
    }

    request
    /// A project to be made.
    CreateProject {
        /// What it is called in commands and paths.
        pub slug: String,
        /// What it is called on screens; nothing means as in commands.
        #[serde(default)]
        pub name: Option<String>,
    }

    request
    /// Where a project shall live.
    PlaceProject {
        /// The world.
        pub world: String,
    }

    request
    /// One version of one blueprint.
    Bundle {
        /// The blueprint; made if there is none.
        pub blueprint: String,
        /// What the version is called.
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
        /// Whether there is a machine to reach; nothing means `node`.
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
    /// A cloud to be entered.
    CreateCloud {
        /// What it is called.
        pub name: String,
        /// Who runs it.
        pub provider: String,
        /// Where it answers. No secrets.
        #[serde(default)]
        pub endpoint: Map<String, Value>,
    }

    request
    /// A credential to be entered: where it lies, never what it says.
    CreateCredential {
        /// What it is called.
        pub name: String,
        /// The cloud it was issued for, by name or id.
        pub cloud: String,
        /// The mount of the key-value store.
        pub mount: String,
        /// The path below the mount.
        pub path: String,
        /// When it ends by itself.
        #[serde(default)]
        pub expires_at: Option<String>,
    }

    request
    /// A project asks for a credential.
    RequestAssignment {
        /// The credential, by name or id.
        pub credential: String,
    }

    request
    /// The labels of one layer, all of them.
    WriteLabels {
        /// The labels.
        pub labels: BTreeMap<String, String>,
    }

    request
    /// An operator's token to be made.
    CreateOperatorToken {
        /// What it is called.
        pub name: String,
        /// `viewer`, `operator` or `admin`.
        pub role: String,
        /// The project it is for, by slug or id.
        #[serde(default)]
        pub project: Option<String>,
        /// When it ends by itself.
        #[serde(default)]
        pub expires_at: Option<String>,
    }

    request
    /// What is known of a label key; also the answer.
    LabelDefinition {
        /// The key.
        pub key: String,
        /// Whether labels of this key go out as tags.
        #[serde(default)]
        pub propagatable: bool,
    }

    answer
    /// A resource.
    Resource {
        /// Its id.
        pub id: String,
        /// What its people call it.
        pub name: String,
        /// The slug of its project.
        pub project: String,
        /// The id of its project.
        pub project_id: String,
        /// Where it is.
        pub phase: String,
        /// Why, once somebody looked.
        pub reason: Option<String>,
        /// Its generation.
        pub generation: u64,
        /// The version of its record.
        pub version: u64,
        /// The blueprint, if it is still in the catalog.
        pub blueprint: Option<String>,
        /// The blueprint's version.
        pub blueprint_version: Option<String>,
        /// The credential, if there still is one.
        pub credential: Option<String>,
        /// The parameters, with defaults.
        pub parameters: Value,
        /// The world it lives in.
        pub world: String,
        /// The namespace there.
        pub namespace: String,
        /// The tenancy resource behind it.
        pub tenancy: String,
        /// When it was declared.
        pub created_at: String,
        /// When its record changed last.
        pub updated_at: String,
        /// Since when it is in its phase.
        pub phase_since: String,
        /// When its deletion was asked for.
        pub deletion_requested_at: Option<String>,
        /// How it ended.
        pub outcome: Option<String>,
    }

    answer
    /// Something that holds a resource where it is.
    Blocker {
        /// What kind of thing it is.
        pub kind: String,
        /// Which one.
        pub name: String,
        /// Since when, if that is known.
        pub since: Option<String>,
        /// What it is doing.
        pub text: String,
    }

    answer
    /// What to make of a situation.
    Advice {
        /// What is seen.
        pub symptom: String,
        /// What it means.
        pub diagnosis: String,
        /// What to do.
        pub remedy: String,
    }

    answer
    /// Why a resource is where it is.
    Why {
        /// The resource.
        pub resource: Resource,
        /// What it waits for or does.
        pub summary: String,
        /// Who holds it.
        pub blockers: Vec<Blocker>,
        /// What to make of it.
        pub advice: Vec<Advice>,
        /// How often it was tried since the last step that was finished.
        pub attempts: u32,
        /// When somebody looks again; nothing is a rest without a timer.
        pub next_look_at: Option<String>,
        /// Whether nobody looks again before an operator says so.
        pub parked: bool,
        /// What failed last.
        pub trouble: Option<String>,
    }

    answer
    /// An outside name.
    Name {
        /// What kind of thing it is.
        pub kind: String,
        /// Where it lives, or empty.
        pub place: String,
        /// What it is called there.
        pub name: String,
        /// The generation it belongs to.
        pub generation: u64,
    }

    answer
    /// One step of a plan.
    PlanStep {
        /// The phase it happens in.
        pub phase: String,
        /// Why.
        pub reason: String,
        /// What would be done; nothing means waiting.
        pub effect: Option<String>,
        /// To which name.
        pub name: Option<Name>,
    }

    answer
    /// What a deletion would do.
    Plan {
        /// The resource.
        pub resource: Resource,
        /// Its steps, in their order.
        pub steps: Vec<PlanStep>,
        /// What would hold it up.
        pub blockers: Vec<Blocker>,
    }

    answer
    /// Who answered what, when.
    Evidence {
        /// The authority that answered.
        pub by: String,
        /// What it answered.
        pub answer: String,
        /// When.
        pub at: String,
    }

    answer
    /// One row of the identity ledger.
    ReceiptRow {
        /// The name.
        #[serde(flatten)]
        pub name: Name,
        /// Counts the objects that stood under the name.
        pub incarnation: u32,
        /// `intended`, `seen`, `gone`, `foreign` or `abandoned`.
        pub standing: String,
        /// The uid of the object that was seen.
        pub uid: Option<String>,
        /// What the standing rests on.
        pub evidence: Evidence,
    }

    answer
    /// The ProviderConfig a resource shares.
    SharedConfig {
        /// The id of its life.
        pub id: String,
        /// Its own names.
        pub rows: Vec<ReceiptRow>,
    }

    answer
    /// Every outside name a resource ever had, and what is known of it.
    Receipt {
        /// The resource.
        pub resource: Resource,
        /// Whether every name is gone, foreign or abandoned.
        pub settled: bool,
        /// The names.
        pub rows: Vec<ReceiptRow>,
        /// The ProviderConfig it shares.
        pub provider_config: Option<SharedConfig>,
    }

    answer
    /// Something outside that no living row accounts for.
    Orphan {
        /// The world it stands in.
        pub world: String,
        /// What kind of thing it is.
        pub kind: String,
        /// Where, or empty.
        pub place: String,
        /// What it is called there.
        pub name: String,
        /// Its uid, if it was seen.
        pub uid: Option<String>,
        /// The life it says it belongs to.
        pub resource: Option<String>,
        /// Why nobody owns it.
        pub cause: String,
        /// Whether it may be reaped.
        pub reapable: bool,
    }

    answer
    /// The rail of a world.
    Rail {
        /// The world.
        pub world: String,
        /// Since when absence is held, if it is.
        pub tripped_at: Option<String>,
        /// How much vanished unasked within the window.
        pub vanished: u32,
        /// How much was present.
        pub present: u32,
    }

    answer
    /// One row of the log.
    Event {
        /// Its id, the same in every delivery.
        pub id: String,
        /// What was told.
        #[serde(rename = "type")]
        pub kind: String,
        /// About which resource, if it is about one.
        pub resource: Option<String>,
        /// About which life of a machine, there only if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub machine: Option<String>,
        /// In which project, if in one.
        pub project: Option<String>,
        /// With which version of the record.
        pub version: u64,
        /// When.
        pub occurred_at: String,
        /// What else is worth knowing.
        pub data: Map<String, Value>,
    }
}
