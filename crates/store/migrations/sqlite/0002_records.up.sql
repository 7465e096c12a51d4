-- Every record and its version: state, identity rows and this row are written together.
CREATE TABLE records (
    id BLOB PRIMARY KEY,
    kind TEXT NOT NULL CONSTRAINT records_kind_check CHECK (kind IN (
        'resource', 'provider_config'
    )),
    version INTEGER NOT NULL CONSTRAINT records_version_check CHECK (version >= 1),
    -- Which write made this version, for a writer that lost the answer to a commit.
    write_id BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE provider_configs (
    id BLOB PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
    installation BLOB NOT NULL,
    world TEXT NOT NULL,
    namespace TEXT NOT NULL,
    provider TEXT NOT NULL CONSTRAINT provider_configs_provider_check CHECK (
        provider IN ('aws', 'azure', 'gcp', 'hetzner', 'openstack', 'local')
    ),
    credential BLOB NOT NULL,
    mount TEXT NOT NULL,
    path TEXT NOT NULL,
    users INTEGER NOT NULL CONSTRAINT provider_configs_users_check CHECK (users >= 0),
    phase TEXT NOT NULL CONSTRAINT provider_configs_phase_check CHECK (phase IN (
        'Pending', 'Ready', 'Leaving', 'Gone'
    )),
    generation INTEGER NOT NULL
        CONSTRAINT provider_configs_generation_check CHECK (generation >= 1),
    grace_until INTEGER,
    held_credential BLOB GENERATED ALWAYS AS
        (CASE WHEN phase = 'Gone' AND users = 0 THEN NULL ELSE credential END) STORED
        REFERENCES credentials (id) ON DELETE RESTRICT,
    CONSTRAINT provider_configs_place_key UNIQUE (world, namespace, credential)
) STRICT;
CREATE INDEX provider_configs_held_credential ON provider_configs (held_credential);

-- What a declaration fixed and how far it has come. A deleted one holds nothing any more.
CREATE TABLE resources (
    id BLOB PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    tenancy BLOB NOT NULL,
    project BLOB NOT NULL,
    blueprint_version BLOB NOT NULL,
    credential BLOB NOT NULL,
    provider_config BLOB NOT NULL REFERENCES provider_configs (id) ON DELETE RESTRICT,
    installation BLOB NOT NULL,
    world TEXT NOT NULL,
    namespace TEXT NOT NULL,
    composite TEXT NOT NULL CHECK (json_valid(composite)),
    xr_name TEXT NOT NULL,
    role TEXT NOT NULL CONSTRAINT resources_role_check CHECK (role IN (
        'node', 'standalone'
    )),
    strategy TEXT NOT NULL CONSTRAINT resources_strategy_check CHECK (strategy IN (
        'cloud-init-user-data', 'helm-values', 'provider-secret'
    )),
    parameters TEXT NOT NULL CHECK (json_valid(parameters)),
    api_url TEXT NOT NULL,
    agent_image TEXT NOT NULL,
    key_id TEXT NOT NULL,
    phase TEXT NOT NULL CONSTRAINT resources_phase_check CHECK (phase IN (
        'Pending', 'Provisioning', 'Enrolling', 'Ready', 'Failed', 'Deregistering',
        'Deprovisioning', 'Deleted'
    )),
    generation INTEGER NOT NULL CONSTRAINT resources_generation_check CHECK (generation >= 1),
    generation_state TEXT NOT NULL CONSTRAINT resources_generation_state_check CHECK (generation_state IN (
        'Fresh', 'Live', 'Leaving'
    )),
    deletion_requested_at INTEGER,
    grace_until INTEGER,
    substrate_ready_at INTEGER,
    outcome TEXT CONSTRAINT resources_outcome_check CHECK (outcome IN (
        'removed', 'abandoned'
    )),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    phase_since INTEGER NOT NULL,
    held_name TEXT GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE name END) STORED,
    held_tenancy BLOB GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE tenancy END) STORED
        REFERENCES tenancy_resources (id) ON DELETE RESTRICT,
    held_project BLOB GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE project END) STORED
        REFERENCES placements (project) ON DELETE RESTRICT,
    held_blueprint_version BLOB GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE blueprint_version END) STORED
        REFERENCES blueprint_versions (id) ON DELETE RESTRICT,
    held_credential BLOB GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE credential END) STORED
        REFERENCES credentials (id) ON DELETE RESTRICT,
    CONSTRAINT resources_intent_check CHECK (
        deletion_requested_at IS NOT NULL
        OR phase NOT IN ('Deregistering', 'Deprovisioning', 'Deleted')
    ),
    CONSTRAINT resources_end_check CHECK ((outcome IS NOT NULL) = (phase = 'Deleted'))
) STRICT;
CREATE UNIQUE INDEX resources_name_key ON resources (project, held_name);
CREATE UNIQUE INDEX resources_held_tenancy ON resources (held_tenancy);
CREATE INDEX resources_held_blueprint_version ON resources (held_blueprint_version);
CREATE INDEX resources_held_credential ON resources (held_credential);
CREATE INDEX resources_project ON resources (project, name, created_at);

-- Deleted resources whose names are still watched; they hold their project until they expire.
CREATE TABLE tombstones (
    resource BLOB PRIMARY KEY REFERENCES resources (id) ON DELETE CASCADE,
    project BLOB NOT NULL REFERENCES placements (project) ON DELETE RESTRICT,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX tombstones_project ON tombstones (project);

-- The identity ledger: every outside name that was ever recorded.
CREATE TABLE names (
    record BLOB NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    -- Its place in the name ledger of its record.
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    place TEXT NOT NULL,
    name TEXT NOT NULL,
    generation INTEGER NOT NULL CONSTRAINT names_generation_check CHECK (generation >= 1),
    incarnation INTEGER NOT NULL CONSTRAINT names_incarnation_check CHECK (incarnation >= 1),
    state TEXT NOT NULL CONSTRAINT names_state_check CHECK (state IN (
        'intended', 'seen', 'gone', 'foreign', 'abandoned'
    )),
    uid TEXT,
    evidence_by TEXT NOT NULL,
    evidence_answer TEXT NOT NULL,
    evidence_at INTEGER NOT NULL,
    -- The plural of the kind, where a Kubernetes API serves it.
    plural TEXT,
    PRIMARY KEY (record, kind, place, name, generation, incarnation)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue (
    record BLOB NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CONSTRAINT queue_kind_check CHECK (kind IN (
        'resource', 'tombstone', 'provider_config'
    )),
    due INTEGER,
    lease_until INTEGER,
    unreturned_until INTEGER,
    fence INTEGER NOT NULL CONSTRAINT queue_fence_check CHECK (fence >= 0),
    attempts INTEGER NOT NULL CONSTRAINT queue_attempts_check CHECK (attempts >= 0),
    wake_seq INTEGER NOT NULL CONSTRAINT queue_wake_seq_check CHECK (wake_seq >= 0),
    parked INTEGER NOT NULL CHECK (parked IN (0, 1)),
    -- Why the last finished step did what it did; reasons are the code's own, so no CHECK.
    reason TEXT,
    -- The error of the last step, if it was not finished.
    trouble TEXT,
    PRIMARY KEY (record, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX queue_due ON queue (due) WHERE due IS NOT NULL AND NOT parked;

-- Only the layer that is meant has a value, so that a label goes with what it is on.
CREATE TABLE labels (
    layer TEXT NOT NULL CONSTRAINT labels_layer_check CHECK (layer IN (
        'installation', 'project', 'resource'
    )),
    owner BLOB NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    project BLOB GENERATED ALWAYS AS (CASE WHEN layer = 'project' THEN owner END) STORED
        REFERENCES projects (id) ON DELETE CASCADE,
    resource BLOB GENERATED ALWAYS AS (CASE WHEN layer = 'resource' THEN owner END) STORED
        REFERENCES resources (id) ON DELETE CASCADE,
    PRIMARY KEY (layer, owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_project ON labels (project);
CREATE INDEX labels_resource ON labels (resource);

CREATE TABLE label_definitions (
    key TEXT PRIMARY KEY,
    propagatable INTEGER NOT NULL CHECK (propagatable IN (0, 1))
) STRICT, WITHOUT ROWID;
