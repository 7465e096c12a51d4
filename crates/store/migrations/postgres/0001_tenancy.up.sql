-- Which installation this database belongs to, and in which database it was last seen.
CREATE TABLE installation (
    singleton boolean PRIMARY KEY
        CONSTRAINT installation_singleton_check CHECK (singleton),
    id uuid NOT NULL,
    database_identifier text NOT NULL,
    -- Grows when the log continues in another database, so that cursors only grow.
    epoch bigint NOT NULL CONSTRAINT installation_epoch_check CHECK (epoch >= 1),
    created_at timestamptz NOT NULL
);

CREATE TABLE projects (
    id uuid PRIMARY KEY,
    slug text NOT NULL CONSTRAINT projects_slug_key UNIQUE,
    name text NOT NULL,
    created_at timestamptz NOT NULL
);

CREATE TABLE placements (
    project uuid PRIMARY KEY REFERENCES projects (id) ON DELETE RESTRICT,
    world text NOT NULL,
    phase text NOT NULL CONSTRAINT placements_phase_check CHECK (phase IN (
        'Pending', 'Provisioning', 'Ready', 'Degraded', 'Terminating', 'Deleted'
    ))
);

-- What a project holds, until it is released.
CREATE TABLE tenancy_resources (
    id uuid PRIMARY KEY,
    project uuid NOT NULL,
    created_at timestamptz NOT NULL,
    released_at timestamptz,
    held_project uuid GENERATED ALWAYS AS
        (CASE WHEN released_at IS NULL THEN project END) STORED
        REFERENCES projects (id) ON DELETE RESTRICT
);
CREATE INDEX tenancy_resources_held_project ON tenancy_resources (held_project);

CREATE TABLE blueprints (
    id uuid PRIMARY KEY,
    name text NOT NULL CONSTRAINT blueprints_name_key UNIQUE
);

CREATE TABLE blueprint_versions (
    id uuid PRIMARY KEY,
    blueprint uuid NOT NULL REFERENCES blueprints (id) ON DELETE RESTRICT,
    version text NOT NULL,
    xrd jsonb NOT NULL,
    composition jsonb NOT NULL,
    parameters jsonb NOT NULL,
    strategy text NOT NULL CONSTRAINT blueprint_versions_strategy_check CHECK (strategy IN (
        'cloud-init-user-data', 'helm-values', 'provider-secret'
    )),
    role text NOT NULL CONSTRAINT blueprint_versions_role_check CHECK (role IN (
        'node', 'standalone'
    )),
    published_at timestamptz NOT NULL,
    CONSTRAINT blueprint_versions_version_key UNIQUE (blueprint, version)
);

CREATE TABLE blueprint_version_providers (
    blueprint_version uuid NOT NULL REFERENCES blueprint_versions (id) ON DELETE CASCADE,
    provider text NOT NULL CONSTRAINT blueprint_version_providers_provider_check CHECK (
        provider IN ('aws', 'azure', 'gcp', 'hetzner', 'openstack', 'local')
    ),
    PRIMARY KEY (blueprint_version, provider)
);

CREATE TABLE clouds (
    id uuid PRIMARY KEY,
    name text NOT NULL CONSTRAINT clouds_name_key UNIQUE,
    provider text NOT NULL CONSTRAINT clouds_provider_check CHECK (
        provider IN ('aws', 'azure', 'gcp', 'hetzner', 'openstack', 'local')
    ),
    endpoint jsonb NOT NULL
);

-- Where credentials are stored; never the credentials.
CREATE TABLE credentials (
    id uuid PRIMARY KEY,
    name text NOT NULL CONSTRAINT credentials_name_key UNIQUE,
    cloud uuid NOT NULL REFERENCES clouds (id) ON DELETE RESTRICT,
    mount text NOT NULL,
    path text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);
CREATE INDEX credentials_cloud ON credentials (cloud);

CREATE TABLE assignments (
    project uuid NOT NULL REFERENCES projects (id) ON DELETE RESTRICT,
    credential uuid NOT NULL REFERENCES credentials (id) ON DELETE RESTRICT,
    requested_by text NOT NULL,
    state text NOT NULL CONSTRAINT assignments_state_check CHECK (state IN (
        'requested', 'approved', 'rejected', 'revoked'
    )),
    decided_by text,
    decided_at timestamptz,
    PRIMARY KEY (project, credential),
    CONSTRAINT assignments_decided_check CHECK (
        (decided_by IS NULL) = (decided_at IS NULL)
        AND (state = 'requested') = (decided_at IS NULL)
    )
);
CREATE INDEX assignments_credential ON assignments (credential);

CREATE TABLE operator_tokens (
    id uuid PRIMARY KEY,
    name text NOT NULL CONSTRAINT operator_tokens_name_key UNIQUE,
    role text NOT NULL CONSTRAINT operator_tokens_role_check CHECK (role IN (
        'viewer', 'operator', 'admin'
    )),
    project uuid REFERENCES projects (id) ON DELETE CASCADE,
    hash bytea NOT NULL CONSTRAINT operator_tokens_hash_key UNIQUE
        CONSTRAINT operator_tokens_hash_check CHECK (length(hash) = 32),
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT operator_tokens_reach_check CHECK (
        role = 'viewer' OR (role = 'admin') = (project IS NULL)
    )
);
