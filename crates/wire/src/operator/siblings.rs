//! Answers about the broker's siblings.

use super::{BTreeMap, Deserialize, Map, Secret, Serialize, Value, bodies};

bodies! {
    answer
    /// A project.
    Project {
        /// Its id.
        pub id: String,
        /// What it is called in commands and paths.
        pub slug: String,
        /// What it is called on screens.
        pub name: String,
    }

    answer
    /// Where a project lives.
    Placement {
        /// The id of the project.
        pub project: String,
        /// The world.
        pub world: String,
        /// The namespace there.
        pub namespace: String,
        /// How far the namespace is.
        pub phase: String,
    }

    answer
    /// The tenancy resource behind a declaration.
    Tenancy {
        /// Its id.
        pub id: String,
        /// The id of its project.
        pub project: String,
        /// When it was given.
        pub created_at: String,
        /// When it was released.
        pub released_at: Option<String>,
    }

    answer
    /// A blueprint.
    Blueprint {
        /// Its id.
        pub id: String,
        /// What it is called.
        pub name: String,
    }

    answer
    /// A published version of a blueprint.
    BlueprintVersion {
        /// Its id.
        pub id: String,
        /// The id of its blueprint.
        pub blueprint: String,
        /// What the version is called.
        pub version: String,
        /// The parameters it takes.
        pub parameters: Vec<Value>,
        /// How a token reaches the machine.
        pub strategy: String,
        /// Whether there is a machine to reach.
        pub role: String,
        /// The providers it runs on.
        pub providers: Vec<String>,
        /// When it was published.
        pub published_at: String,
    }

    answer
    /// What was noticed about a bundle.
    Finding {
        /// Whether it stands in the way of publishing.
        pub fatal: bool,
        /// Where, as a path into the bundle.
        pub at: String,
        /// What.
        pub text: String,
    }

    answer
    /// What became of a bundle.
    Imported {
        /// The blueprint.
        pub blueprint: String,
        /// What the version is called.
        pub version: String,
        /// `published`, `unchanged` or `refused`.
        pub outcome: String,
        /// The id of the version, unless it was refused.
        pub id: Option<String>,
        /// What was noticed.
        pub findings: Vec<Finding>,
    }

    answer
    /// A cloud.
    Cloud {
        /// Its id.
        pub id: String,
        /// What it is called.
        pub name: String,
        /// Who runs it.
        pub provider: String,
        /// Where it answers.
        pub endpoint: Map<String, Value>,
    }

    answer
    /// A credential: where it lies, never what it says.
    Credential {
        /// Its id.
        pub id: String,
        /// What it is called.
        pub name: String,
        /// The name of its cloud.
        pub cloud: String,
        /// Who runs that cloud.
        pub provider: String,
        /// The mount of the key-value store.
        pub mount: String,
        /// The path below the mount.
        pub path: String,
        /// Whether it holds.
        pub status: String,
        /// When it ends by itself.
        pub expires_at: Option<String>,
        /// When it was withdrawn.
        pub revoked_at: Option<String>,
    }

    answer
    /// A credential for a project, or the wish for one.
    Assignment {
        /// The slug of the project.
        pub project: String,
        /// The name of the credential.
        pub credential: String,
        /// How far it got.
        pub state: String,
        /// Who asked.
        pub requested_by: String,
        /// Who spoke last.
        pub decided_by: Option<String>,
        /// When.
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
        /// From when on nobody can redeem it.
        pub expires_at: String,
        /// The node it became.
        pub node: Option<String>,
        /// When it was withdrawn.
        pub revoked_at: Option<String>,
    }

    answer
    /// A node of the mesh.
    Node {
        /// Its id.
        pub id: String,
        /// What its resource is called.
        pub name: String,
        /// The id of its resource.
        pub resource: String,
        /// The id of its project.
        pub project: String,
        /// The generation it belongs to.
        pub generation: u64,
        /// How far it is on its way out.
        pub stage: String,
        /// Whether it is heard.
        pub liveness: String,
        /// When it registered.
        pub registered_at: String,
        /// When it was last heard.
        pub heard_at: Option<String>,
        /// What it says it is.
        pub agent_version: Option<String>,
    }

    answer
    /// An operator's token, without its text.
    OperatorToken {
        /// Its id.
        pub id: String,
        /// What it is called.
        pub name: String,
        /// `viewer`, `operator` or `admin`.
        pub role: String,
        /// The id of the project it is for, if for one.
        pub project: Option<String>,
        /// When it ends by itself.
        pub expires_at: Option<String>,
        /// When it was withdrawn.
        pub revoked_at: Option<String>,
    }

    answer
    /// An operator's token with its text, which is told once.
    IssuedOperatorToken {
        /// The token.
        #[serde(flatten)]
        pub token: OperatorToken,
        /// Its text.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        pub text: Secret,
    }

    answer
    /// Who is calling.
    Whoami {
        /// What the token is called.
        pub name: String,
        /// Its role.
        pub role: String,
        /// The id of the project it is for, if for one.
        pub project: Option<String>,
    }

    answer
    /// One row of the audit log.
    AuditEntry {
        /// Its id.
        pub id: String,
        /// When.
        pub at: String,
        /// Who.
        pub actor: String,
        /// What.
        pub action: String,
        /// In which project.
        pub project: Option<String>,
        /// To what.
        pub subject: String,
        /// What else is worth knowing.
        pub detail: Map<String, Value>,
    }

    answer
    /// One named check of readiness.
    Check {
        /// What was asked.
        pub name: String,
        /// Whether all is well.
        pub ok: bool,
        /// What is wrong.
        pub detail: Option<String>,
    }

    answer
    /// Whether this process can serve.
    Ready {
        /// Whether it can.
        pub ready: bool,
        /// Every check.
        pub checks: Vec<Check>,
    }
}
