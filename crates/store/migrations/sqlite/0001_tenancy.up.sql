-- Which installation this database belongs to, and in which database it was last seen.
CREATE TABLE installation (
    singleton INTEGER PRIMARY KEY
        CONSTRAINT installation_singleton_check CHECK (singleton = 1),
    id BLOB NOT NULL,
    database_identifier TEXT NOT NULL,
    -- Grows when the log continues in another database, so that cursors only grow.
    epoch INTEGER NOT NULL CONSTRAINT installation_epoch_check CHECK (epoch >= 1),
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE projects (
    id BLOB PRIMARY KEY,
    slug TEXT NOT NULL CONSTRAINT projects_slug_key UNIQUE,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE placements (
    project BLOB PRIMARY KEY REFERENCES projects (id) ON DELETE RESTRICT,
    world TEXT NOT NULL,
    phase TEXT NOT NULL CONSTRAINT placements_phase_check CHECK (phase IN (
        'Pending', 'Provisioning', 'Ready', 'Degraded', 'Terminating', 'Deleted'
    ))
) STRICT, WITHOUT ROWID;

-- What a project holds, until it is released.
CREATE TABLE tenancy_resources (
    id BLOB PRIMARY KEY,
    project BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    released_at INTEGER,
    held_project BLOB GENERATED ALWAYS AS
        (CASE WHEN released_at IS NULL THEN project END) STORED
        REFERENCES projects (id) ON DELETE RESTRICT
) STRICT;
CREATE INDEX tenancy_resources_held_project ON tenancy_resources (held_project);

CREATE TABLE blueprints (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL CONSTRAINT blueprints_name_key UNIQUE
) STRICT;

CREATE TABLE blueprint_versions (
    id BLOB PRIMARY KEY,
    blueprint BLOB NOT NULL REFERENCES blueprints (id) ON DELETE RESTRICT,
    version TEXT NOT NULL,
    xrd TEXT NOT NULL CHECK (json_valid(xrd)),
    composition TEXT NOT NULL CHECK (json_valid(composition)),
    parameters TEXT NOT NULL CHECK (json_valid(parameters)),
    strategy TEXT NOT NULL CONSTRAINT blueprint_versions_strategy_check CHECK (strategy IN (
        'cloud-init-user-data', 'helm-values', 'provider-secret'
    )),
    role TEXT NOT NULL CONSTRAINT blueprint_versions_role_check CHECK (role IN (
        'node', 'standalone'
    )),
    published_at INTEGER NOT NULL,
    CONSTRAINT blueprint_versions_version_key UNIQUE (blueprint, version)
) STRICT;

CREATE TABLE blueprint_version_providers (
    blueprint_version BLOB NOT NULL REFERENCES blueprint_versions (id) ON DELETE CASCADE,
    provider TEXT NOT NULL CONSTRAINT blueprint_version_providers_provider_check CHECK (
        provider IN ('aws', 'azure', 'gcp', 'hetzner', 'openstack', 'local')
    ),
    PRIMARY KEY (blueprint_version, provider)
) STRICT, WITHOUT ROWID;

CREATE TABLE clouds (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL CONSTRAINT clouds_name_key UNIQUE,
    provider TEXT NOT NULL CONSTRAINT clouds_provider_check CHECK (
        provider IN ('aws', 'azure', 'gcp', 'hetzner', 'openstack', 'local')
    ),
    endpoint TEXT NOT NULL CHECK (json_valid(endpoint))
) STRICT;

-- Where credentials are stored; never the credentials.
CREATE TABLE credentials (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL CONSTRAINT credentials_name_key UNIQUE,
    cloud BLOB NOT NULL REFERENCES clouds (id) ON DELETE RESTRICT,
    mount TEXT NOT NULL,
    path TEXT NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;
CREATE INDEX credentials_cloud ON credentials (cloud);

CREATE TABLE assignments (
    project BLOB NOT NULL REFERENCES projects (id) ON DELETE RESTRICT,
    credential BLOB NOT NULL REFERENCES credentials (id) ON DELETE RESTRICT,
    requested_by TEXT NOT NULL,
    state TEXT NOT NULL CONSTRAINT assignments_state_check CHECK (state IN (
        'requested', 'approved', 'rejected', 'revoked'
    )),
    decided_by TEXT,
    decided_at INTEGER,
    PRIMARY KEY (project, credential),
    CONSTRAINT assignments_decided_check CHECK (
        (decided_by IS NULL) = (decided_at IS NULL)
        AND (state = 'requested') = (decided_at IS NULL)
    )
) STRICT, WITHOUT ROWID;
CREATE INDEX assignments_credential ON assignments (credential);

CREATE TABLE operator_tokens (
    id BLOB PRIMARY KEY,
    name TEXT NOT NULL CONSTRAINT operator_tokens_name_key UNIQUE,
    role TEXT NOT NULL CONSTRAINT operator_tokens_role_check CHECK (role IN (
        'viewer', 'operator', 'admin'
    )),
    project BLOB REFERENCES projects (id) ON DELETE CASCADE,
    hash BLOB NOT NULL CONSTRAINT operator_tokens_hash_key UNIQUE
        CONSTRAINT operator_tokens_hash_check CHECK (length(hash) = 32),
    expires_at INTEGER,
    revoked_at INTEGER,
    CONSTRAINT operator_tokens_reach_check CHECK (
        role = 'viewer' OR (role = 'admin') = (project IS NULL)
    )
) STRICT;
