-- Every record and its version: state, identity rows and this row are written together.
CREATE TABLE records (
    id uuid PRIMARY KEY,
    kind text NOT NULL CONSTRAINT records_kind_check CHECK (kind IN (
        'resource', 'provider_config'
    )),
    version bigint NOT NULL CONSTRAINT records_version_check CHECK (version >= 1),
    -- Which write made this version, for a writer that lost the answer to a commit.
    write_id uuid NOT NULL
);

CREATE TABLE provider_configs (
    id uuid PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
    installation uuid NOT NULL,
    world text NOT NULL,
    namespace text NOT NULL,
    provider text NOT NULL CONSTRAINT provider_configs_provider_check CHECK (
        provider IN ('aws', 'azure', 'gcp', 'hetzner', 'openstack', 'local')
    ),
    credential uuid NOT NULL,
    mount text NOT NULL,
    path text NOT NULL,
    users bigint NOT NULL CONSTRAINT provider_configs_users_check CHECK (users >= 0),
    phase text NOT NULL CONSTRAINT provider_configs_phase_check CHECK (phase IN (
        'Pending', 'Ready', 'Leaving', 'Gone'
    )),
    generation bigint NOT NULL
        CONSTRAINT provider_configs_generation_check CHECK (generation >= 1),
    grace_until timestamptz,
    held_credential uuid GENERATED ALWAYS AS
        (CASE WHEN phase = 'Gone' AND users = 0 THEN NULL ELSE credential END) STORED
        REFERENCES credentials (id) ON DELETE RESTRICT,
    CONSTRAINT provider_configs_place_key UNIQUE (world, namespace, credential)
);
CREATE INDEX provider_configs_held_credential ON provider_configs (held_credential);

-- What a declaration fixed and how far it has come. A deleted one holds nothing any more.
CREATE TABLE resources (
    id uuid PRIMARY KEY REFERENCES records (id) ON DELETE CASCADE,
    name text NOT NULL,
    tenancy uuid NOT NULL,
    project uuid NOT NULL,
    blueprint_version uuid NOT NULL,
    credential uuid NOT NULL,
    provider_config uuid NOT NULL REFERENCES provider_configs (id) ON DELETE RESTRICT,
    installation uuid NOT NULL,
    world text NOT NULL,
    namespace text NOT NULL,
    composite jsonb NOT NULL,
    xr_name text NOT NULL,
    role text NOT NULL CONSTRAINT resources_role_check CHECK (role IN (
        'node', 'standalone'
    )),
    strategy text NOT NULL CONSTRAINT resources_strategy_check CHECK (strategy IN (
        'cloud-init-user-data', 'helm-values', 'provider-secret'
    )),
    parameters jsonb NOT NULL,
    api_url text NOT NULL,
    agent_image text NOT NULL,
    key_id text NOT NULL,
    phase text NOT NULL CONSTRAINT resources_phase_check CHECK (phase IN (
        'Pending', 'Provisioning', 'Enrolling', 'Ready', 'Failed', 'Deregistering',
        'Deprovisioning', 'Deleted'
    )),
    generation bigint NOT NULL CONSTRAINT resources_generation_check CHECK (generation >= 1),
    generation_state text NOT NULL CONSTRAINT resources_generation_state_check CHECK (generation_state IN (
        'Fresh', 'Live', 'Leaving'
    )),
    deletion_requested_at timestamptz,
    grace_until timestamptz,
    substrate_ready_at timestamptz,
    outcome text CONSTRAINT resources_outcome_check CHECK (outcome IN (
        'removed', 'abandoned'
    )),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    phase_since timestamptz NOT NULL,
    held_name text GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE name END) STORED,
    held_tenancy uuid GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE tenancy END) STORED
        REFERENCES tenancy_resources (id) ON DELETE RESTRICT,
    held_project uuid GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE project END) STORED
        REFERENCES placements (project) ON DELETE RESTRICT,
    held_blueprint_version uuid GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE blueprint_version END) STORED
        REFERENCES blueprint_versions (id) ON DELETE RESTRICT,
    held_credential uuid GENERATED ALWAYS AS
        (CASE WHEN phase = 'Deleted' THEN NULL ELSE credential END) STORED
        REFERENCES credentials (id) ON DELETE RESTRICT,
    CONSTRAINT resources_intent_check CHECK (
        deletion_requested_at IS NOT NULL
        OR phase NOT IN ('Deregistering', 'Deprovisioning', 'Deleted')
    ),
    CONSTRAINT resources_end_check CHECK ((outcome IS NOT NULL) = (phase = 'Deleted'))
);
CREATE UNIQUE INDEX resources_name_key ON resources (project, held_name);
CREATE UNIQUE INDEX resources_held_tenancy ON resources (held_tenancy);
CREATE INDEX resources_held_blueprint_version ON resources (held_blueprint_version);
CREATE INDEX resources_held_credential ON resources (held_credential);
CREATE INDEX resources_project ON resources (project, name, created_at);

-- Deleted resources whose names are still watched; they hold their project until they expire.
CREATE TABLE tombstones (
    resource uuid PRIMARY KEY REFERENCES resources (id) ON DELETE CASCADE,
    project uuid NOT NULL REFERENCES placements (project) ON DELETE RESTRICT,
    created_at timestamptz NOT NULL
);
CREATE INDEX tombstones_project ON tombstones (project);

-- The identity ledger: every outside name that was ever recorded.
CREATE TABLE names (
    record uuid NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    -- Its place in the name ledger of its record.
    position bigint NOT NULL,
    kind text NOT NULL,
    place text NOT NULL,
    name text NOT NULL,
    generation bigint NOT NULL CONSTRAINT names_generation_check CHECK (generation >= 1),
    incarnation bigint NOT NULL CONSTRAINT names_incarnation_check CHECK (incarnation >= 1),
    state text NOT NULL CONSTRAINT names_state_check CHECK (state IN (
        'intended', 'seen', 'gone', 'foreign', 'abandoned'
    )),
    uid text,
    evidence_by text NOT NULL,
    evidence_answer text NOT NULL,
    evidence_at timestamptz NOT NULL,
    -- The plural of the kind, where a Kubernetes API serves it.
    plural text,
    PRIMARY KEY (record, kind, place, name, generation, incarnation)
);

CREATE TABLE queue (
    record uuid NOT NULL REFERENCES records (id) ON DELETE CASCADE,
    kind text NOT NULL CONSTRAINT queue_kind_check CHECK (kind IN (
        'resource', 'tombstone', 'provider_config'
    )),
    due timestamptz,
    lease_until timestamptz,
    unreturned_until timestamptz,
    fence bigint NOT NULL CONSTRAINT queue_fence_check CHECK (fence >= 0),
    attempts bigint NOT NULL CONSTRAINT queue_attempts_check CHECK (attempts >= 0),
    wake_seq bigint NOT NULL CONSTRAINT queue_wake_seq_check CHECK (wake_seq >= 0),
    parked boolean NOT NULL,
    -- Why the last finished step did what it did; reasons are the code's own, so no CHECK.
    reason text,
    -- The error of the last step, if it was not finished.
    trouble text,
    PRIMARY KEY (record, kind)
);
CREATE INDEX queue_due ON queue (due) WHERE due IS NOT NULL AND NOT parked;

-- Only the layer that is meant has a value, so that a label goes with what it is on.
CREATE TABLE labels (
    layer text NOT NULL CONSTRAINT labels_layer_check CHECK (layer IN (
        'installation', 'project', 'resource'
    )),
    owner uuid NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    project uuid GENERATED ALWAYS AS (CASE WHEN layer = 'project' THEN owner END) STORED
        REFERENCES projects (id) ON DELETE CASCADE,
    resource uuid GENERATED ALWAYS AS (CASE WHEN layer = 'resource' THEN owner END) STORED
        REFERENCES resources (id) ON DELETE CASCADE,
    PRIMARY KEY (layer, owner, key)
);
CREATE INDEX labels_project ON labels (project);
CREATE INDEX labels_resource ON labels (resource);

CREATE TABLE label_definitions (
    key text PRIMARY KEY,
    propagatable boolean NOT NULL
);
