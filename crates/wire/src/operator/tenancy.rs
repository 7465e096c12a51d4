//! Answers about tenancy, catalog, credentials, nodes, operators and health.

use super::{BTreeMap, Deserialize, Map, Secret, Serialize, Value, bodies};

bodies! {
    answer
    /// A project.
    Project {
        /// Its id.
        pub id: String,
        /// The name in commands and paths.
        pub slug: String,
        /// The display name.
        pub name: String,
    }

    answer
    /// The placement of a project.
    Placement {
        /// The id of the project.
        pub project: String,
        /// The world.
        pub world: String,
        /// The namespace there.
        pub namespace: String,
        /// The phase of the namespace.
        pub phase: String,
    }

    answer
    /// The tenancy resource behind a declaration.
    Tenancy {
        /// Its id.
        pub id: String,
        /// The id of its project.
        pub project: String,
        /// When it was created.
        pub created_at: String,
        /// When it was released.
        pub released_at: Option<String>,
    }

    answer
    /// A blueprint.
    Blueprint {
        /// Its id.
        pub id: String,
        /// Its name.
        pub name: String,
    }

    answer
    /// A published version of a blueprint.
    BlueprintVersion {
        /// Its id.
        pub id: String,
        /// The id of its blueprint.
        pub blueprint: String,
        /// The name of the version.
        pub version: String,
        /// The parameters it takes.
        pub parameters: Vec<Value>,
        /// How a token reaches the machine.
        pub strategy: String,
        /// Whether there is a machine to enrol.
        pub role: String,
        /// The providers it runs on.
        pub providers: Vec<String>,
        /// When it was published.
        pub published_at: String,
    }

    answer
    /// A finding about a bundle.
    Finding {
        /// Whether it prevents publishing.
        pub fatal: bool,
        /// A path into the bundle.
        pub at: String,
        /// The finding in one sentence.
        pub text: String,
    }

    answer
    /// The outcome of one bundle.
    Imported {
        /// The blueprint.
        pub blueprint: String,
        /// The name of the version.
        pub version: String,
        /// `published`, `unchanged` or `refused`.
        pub outcome: String,
        /// The id of the version, unless it was refused.
        pub id: Option<String>,
        /// The findings.
        pub findings: Vec<Finding>,
    }

    answer
    /// A cloud.
    Cloud {
        /// Its id.
        pub id: String,
        /// Its name.
        pub name: String,
        /// The provider.
        pub provider: String,
        /// Provider-specific settings.
        pub endpoint: Map<String, Value>,
    }

    answer
    /// A credential: its coordinates, never its value.
    Credential {
        /// Its id.
        pub id: String,
        /// Its name.
        pub name: String,
        /// The name of its cloud.
        pub cloud: String,
        /// The provider of the cloud.
        pub provider: String,
        /// The mount of the key-value store.
        pub mount: String,
        /// The path below the mount.
        pub path: String,
        /// Whether it is valid now.
        pub status: String,
        /// When it expires.
        pub expires_at: Option<String>,
        /// When it was revoked.
        pub revoked_at: Option<String>,
    }

    answer
    /// The assignment of a credential to a project, or the request for it.
    Assignment {
        /// The slug of the project.
        pub project: String,
        /// The name of the credential.
        pub credential: String,
        /// Its state.
        pub state: String,
        /// The operator who requested it.
        pub requested_by: String,
        /// The operator who decided last.
        pub decided_by: Option<String>,
        /// When it was decided.
        pub decided_at: Option<String>,
    }

    answer
    /// The labels of one layer.
    Labels {
        /// The labels.
        pub labels: BTreeMap<String, String>,
    }

    answer
    /// A bootstrap token, without its text.
    Token {
        /// Its id.
        pub id: String,
        /// The id of the resource it enrols.
        pub resource: String,
        /// The id of the project it enrols into.
        pub project: String,
        /// The generation it belongs to.
        pub generation: u64,
        /// `redeemable`, `consumed`, `revoked` or `ended`.
        pub state: String,
        /// When it was issued.
        pub issued_at: String,
        /// When it expires.
        pub expires_at: String,
        /// The node that redeemed it.
        pub node: Option<String>,
        /// When it was revoked.
        pub revoked_at: Option<String>,
    }

    answer
    /// A node of the mesh.
    Node {
        /// Its id.
        pub id: String,
        /// The name of its resource.
        pub name: String,
        /// The id of its resource.
        pub resource: String,
        /// The id of its project.
        pub project: String,
        /// The generation it belongs to.
        pub generation: u64,
        /// The stage of its registration or deregistration.
        pub stage: String,
        /// Whether its heartbeats arrive: `live`, `lost`, or `unknown` while no running server
        /// received one.
        pub liveness: String,
        /// Since when it is unknown, if it is.
        pub unknown_since: Option<String>,
        /// When it counts as lost unless a server hears it, if it is unknown.
        pub lost_at: Option<String>,
        /// When it registered.
        pub registered_at: String,
        /// Its last heartbeat.
        pub last_heartbeat_at: Option<String>,
        /// The version of its agent.
        pub agent_version: Option<String>,
    }

    answer
    /// An operator's token, without its text.
    OperatorToken {
        /// Its id.
        pub id: String,
        /// Its name.
        pub name: String,
        /// `viewer`, `operator` or `admin`.
        pub role: String,
        /// The id of the project it is for, if for one.
        pub project: Option<String>,
        /// When it expires.
        pub expires_at: Option<String>,
        /// When it was revoked.
        pub revoked_at: Option<String>,
    }

    answer
    /// A new operator's token with its text, which is returned only once.
    IssuedOperatorToken {
        /// The token.
        #[serde(flatten)]
        pub token: OperatorToken,
        /// Its text.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub text: Secret,
    }

    answer
    /// The calling token.
    Whoami {
        /// Its name.
        pub name: String,
        /// Its role.
        pub role: String,
        /// The id of the project it is for, if for one.
        pub project: Option<String>,
    }

    answer
    /// One entry of the audit log.
    AuditEntry {
        /// Its id.
        pub id: String,
        /// When it was done.
        pub at: String,
        /// The name of the operator's token.
        pub actor: String,
        /// The action.
        pub action: String,
        /// Its project, if any.
        pub project: Option<String>,
        /// The object of the action.
        pub subject: String,
        /// Details by action.
        pub detail: Map<String, Value>,
    }

    answer
    /// A key that secrets are derived with; the key itself is in the key file.
    ServerKey {
        /// Its id.
        pub id: String,
        /// `current`, `previous` or `retired`.
        pub state: String,
        /// When it became current.
        pub current_since: String,
        /// When the next key became current.
        pub superseded_at: Option<String>,
        /// When no secret named it any more.
        pub retired_at: Option<String>,
        /// How many bootstrap tokens that may still be redeemed name it.
        pub tokens: u64,
        /// How many nodes call with a secret of it.
        pub nodes: u64,
        /// Whether the answering server holds it.
        pub held: bool,
        /// Whether it may be removed from the key file.
        pub removable: bool,
    }

    request
    /// A rotation of the server key.
    RotateKey {
        /// The id of the key that is current until then.
        pub from: String,
    }

    request
    /// A receipt to verify.
    VerifyReceipt {
        /// The receipt, as it was answered.
        pub receipt: Map<String, Value>,
    }

    answer
    /// A readiness check.
    Check {
        /// Its name.
        pub name: String,
        /// Whether it passed.
        pub ok: bool,
        /// The error.
        pub detail: Option<String>,
    }

    answer
    /// The readiness of this process.
    Ready {
        /// Whether every check passed.
        pub ready: bool,
        /// Every check.
        pub checks: Vec<Check>,
    }
}
