-- The lease of a shard: its holder, and until when. Every acquisition raises the epoch.
CREATE TABLE shards (
    id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL CONSTRAINT shards_epoch_check CHECK (epoch >= 1),
    holder BLOB,
    lease_until INTEGER,
    -- Since when nothing new is begun, and since when plans are only reported.
    paused_at INTEGER,
    dry_run_at INTEGER,
    CONSTRAINT shards_lease_check CHECK ((holder IS NULL) = (lease_until IS NULL))
) STRICT;

-- One row per record of a machine. What statements select by is in columns, the whole machine in
-- one value beside them.
CREATE TABLE machines (
    id BLOB PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES shards (id) ON DELETE RESTRICT,
    provider TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL CONSTRAINT machines_version_check CHECK (version >= 1),
    -- Which write made this version, for a writer that lost the answer to a commit.
    write_id BLOB NOT NULL,
    phase TEXT NOT NULL CONSTRAINT machines_phase_check CHECK (phase IN (
        'Speculative', 'Creating', 'Idle', 'Configuring', 'Configured', 'Draining', 'Deleting',
        'Failed', 'Gone'
    )),
    -- The cluster it is bound to, or was when it failed.
    cluster TEXT,
    -- The resource that holds it.
    holder BLOB,
    disputed INTEGER NOT NULL
        CONSTRAINT machines_disputed_check CHECK (disputed IN (0, 1)),
    -- Whether a writer besides its shard wrote the row since the shard did.
    woken INTEGER NOT NULL
        CONSTRAINT machines_woken_check CHECK (woken IN (0, 1)),
    fields TEXT NOT NULL CHECK (json_valid(fields)),
    name_ledger TEXT NOT NULL CHECK (json_valid(name_ledger))
) STRICT;
CREATE UNIQUE INDEX machines_name_key ON machines (provider, name) WHERE phase <> 'Gone';
CREATE INDEX machines_owner ON machines (owner, id) WHERE phase <> 'Gone';
CREATE INDEX machines_woken ON machines (owner, id) WHERE woken;
CREATE INDEX machines_cluster ON machines (cluster, id) WHERE cluster IS NOT NULL;
CREATE INDEX machines_holder ON machines (holder) WHERE holder IS NOT NULL;
CREATE INDEX machines_name ON machines (name);

-- The accepted demand of each cluster, and how far its roll-ups are trusted.
CREATE TABLE fleet_demands (
    cluster TEXT PRIMARY KEY,
    shard TEXT NOT NULL,
    version INTEGER NOT NULL CONSTRAINT fleet_demands_version_check CHECK (version >= 1),
    heard_at INTEGER NOT NULL,
    needs TEXT NOT NULL CHECK (json_valid(needs)),
    trust TEXT NOT NULL CHECK (json_valid(trust))
) STRICT;
CREATE INDEX fleet_demands_shard ON fleet_demands (shard, cluster);

-- How far the list of a provider was read, and how far absence from it counts.
CREATE TABLE fleet_lists (
    shard TEXT NOT NULL REFERENCES shards (id) ON DELETE CASCADE,
    provider TEXT NOT NULL,
    revision BLOB NOT NULL,
    credence TEXT NOT NULL CONSTRAINT fleet_lists_credence_check CHECK (credence IN (
        'Whole', 'Cut', 'TooSmall'
    )),
    listed_at INTEGER NOT NULL,
    PRIMARY KEY (shard, provider)
) STRICT;

-- Events of machines are in the same log, without a project. `resource` is the id of the machine.
-- A check cannot be changed, so the tables are made again.
CREATE TABLE events_rebuilt (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch INTEGER NOT NULL,
    id BLOB NOT NULL,
    resource BLOB NOT NULL,
    project BLOB,
    version INTEGER NOT NULL,
    type TEXT NOT NULL CONSTRAINT events_type_check CHECK (type IN (
        'broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
        'broker.ProvisionedResourceFailed', 'broker.ProvisionedResourceDeleting',
        'broker.ProvisionedResourceDeleted',
        'fleet.MachineMoved', 'fleet.MachineDisputed', 'fleet.MachineSettled',
        'fleet.MachineGone'
    )),
    occurred_at INTEGER NOT NULL,
    data TEXT NOT NULL CHECK (json_valid(data)),
    CONSTRAINT events_crossing_key UNIQUE (resource, version)
) STRICT;
INSERT INTO events_rebuilt
    SELECT seq, epoch, id, resource, project, version, type, occurred_at, data FROM events;
-- No row id is given twice, also if the last rows were deleted.
DELETE FROM sqlite_sequence WHERE name = 'events_rebuilt';
UPDATE sqlite_sequence SET name = 'events_rebuilt' WHERE name = 'events';
DROP TABLE events;
ALTER TABLE events_rebuilt RENAME TO events;

CREATE TABLE audit_rebuilt (
    id BLOB PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL CONSTRAINT audit_action_check CHECK (action IN (
        'resource.provision', 'resource.deprovision', 'resource.retry', 'resource.replace',
        'resource.abandon', 'resource.reap', 'peer.force', 'guard.reset', 'project.create',
        'project.delete', 'placement.create', 'placement.terminate', 'blueprint.publish',
        'blueprint.delete',
        'cloud.create', 'cloud.delete', 'credential.create', 'credential.revoke',
        'credential.delete', 'assignment.request', 'assignment.approve',
        'assignment.reject', 'assignment.revoke', 'label.define', 'label.write',
        'operator_token.create', 'operator_token.revoke',
        'fleet.demand', 'fleet.pause', 'fleet.resume', 'fleet.dry_run', 'machine.settle'
    )),
    project BLOB,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL CHECK (json_valid(detail))
) STRICT;
INSERT INTO audit_rebuilt SELECT id, at, actor, action, project, subject, detail FROM audit;
DROP TABLE audit;
ALTER TABLE audit_rebuilt RENAME TO audit;
