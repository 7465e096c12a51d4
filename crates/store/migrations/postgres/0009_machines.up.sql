-- The lease of a shard: its holder, and until when. Every acquisition raises the epoch.
CREATE TABLE shards (
    id text PRIMARY KEY,
    epoch bigint NOT NULL CONSTRAINT shards_epoch_check CHECK (epoch >= 1),
    holder uuid,
    lease_until timestamptz,
    -- Since when nothing new is begun, and since when plans are only reported.
    paused_at timestamptz,
    dry_run_at timestamptz,
    -- Makes the epoch a part of a key: a writer that holds the key of the row shares it with renewals of
    -- the lease and keeps the next acquisition waiting.
    CONSTRAINT shards_epoch_key UNIQUE (id, epoch),
    CONSTRAINT shards_lease_check CHECK ((holder IS NULL) = (lease_until IS NULL))
);

-- One row per record of a machine. What statements select by is in columns, the whole machine in
-- one value beside them.
CREATE TABLE machines (
    id uuid PRIMARY KEY,
    owner text NOT NULL REFERENCES shards (id) ON DELETE RESTRICT,
    provider text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL CONSTRAINT machines_version_check CHECK (version >= 1),
    -- Which write made this version, for a writer that lost the answer to a commit.
    write_id uuid NOT NULL,
    phase text NOT NULL CONSTRAINT machines_phase_check CHECK (phase IN (
        'Speculative', 'Creating', 'Idle', 'Configuring', 'Configured', 'Draining', 'Deleting',
        'Failed', 'Gone'
    )),
    -- The cluster it is bound to, or was when it failed.
    cluster text,
    -- The resource that holds it.
    holder uuid,
    disputed boolean NOT NULL,
    -- Whether a writer besides its shard wrote the row since the shard did.
    woken boolean NOT NULL,
    fields jsonb NOT NULL,
    name_ledger jsonb NOT NULL
);
CREATE UNIQUE INDEX machines_name_key ON machines (provider, name) WHERE phase <> 'Gone';
CREATE INDEX machines_owner ON machines (owner, id) WHERE phase <> 'Gone';
CREATE INDEX machines_woken ON machines (owner, id) WHERE woken;
CREATE INDEX machines_cluster ON machines (cluster, id) WHERE cluster IS NOT NULL;
CREATE INDEX machines_holder ON machines (holder) WHERE holder IS NOT NULL;
CREATE INDEX machines_name ON machines (name);

-- The accepted demand of each cluster, and how far its roll-ups are trusted.
CREATE TABLE fleet_demands (
    cluster text PRIMARY KEY,
    shard text NOT NULL,
    version bigint NOT NULL CONSTRAINT fleet_demands_version_check CHECK (version >= 1),
    heard_at timestamptz NOT NULL,
    needs jsonb NOT NULL,
    trust jsonb NOT NULL
);
CREATE INDEX fleet_demands_shard ON fleet_demands (shard, cluster);

-- How far the list of a provider was read, and how far absence from it counts.
CREATE TABLE fleet_lists (
    shard text NOT NULL REFERENCES shards (id) ON DELETE CASCADE,
    provider text NOT NULL,
    revision bytea NOT NULL,
    credence text NOT NULL CONSTRAINT fleet_lists_credence_check CHECK (credence IN (
        'Whole', 'Cut', 'TooSmall'
    )),
    listed_at timestamptz NOT NULL,
    PRIMARY KEY (shard, provider)
);

-- Events of machines are in the same log, without a project. `resource` is the id of the machine.
ALTER TABLE events DROP CONSTRAINT events_type_check;
ALTER TABLE events ADD CONSTRAINT events_type_check CHECK (type IN (
    'broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
    'broker.ProvisionedResourceFailed', 'broker.ProvisionedResourceDeleting',
    'broker.ProvisionedResourceDeleted',
    'fleet.MachineMoved', 'fleet.MachineDisputed', 'fleet.MachineSettled',
    'fleet.MachineGone'
));
ALTER TABLE events ALTER COLUMN project DROP NOT NULL;
ALTER TABLE audit DROP CONSTRAINT audit_action_check;
ALTER TABLE audit ADD CONSTRAINT audit_action_check CHECK (action IN (
    'resource.provision', 'resource.deprovision', 'resource.retry', 'resource.replace',
    'resource.abandon', 'resource.reap', 'peer.force', 'guard.reset', 'project.create',
    'project.delete', 'placement.create', 'placement.terminate', 'blueprint.publish',
    'blueprint.delete',
    'cloud.create', 'cloud.delete', 'credential.create', 'credential.revoke',
    'credential.delete', 'assignment.request', 'assignment.approve',
    'assignment.reject', 'assignment.revoke', 'label.define', 'label.write',
    'operator_token.create', 'operator_token.revoke',
    'fleet.demand', 'fleet.pause', 'fleet.resume', 'fleet.dry_run', 'machine.settle'
));
