-- One row per crossing, written with it. There is one writer, so the order of the row ids is the
-- order of the commits; no row id is given twice.
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    epoch INTEGER NOT NULL,
    id BLOB NOT NULL,
    resource BLOB NOT NULL,
    project BLOB NOT NULL,
    version INTEGER NOT NULL,
    type TEXT NOT NULL CONSTRAINT events_type_check CHECK (type IN (
        'broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
        'broker.ProvisionedResourceFailed', 'broker.ProvisionedResourceDeleting',
        'broker.ProvisionedResourceDeleted'
    )),
    occurred_at INTEGER NOT NULL,
    data TEXT NOT NULL CHECK (json_valid(data)),
    CONSTRAINT events_crossing_key UNIQUE (resource, version)
) STRICT;

-- The cursor of the last deleted event.
CREATE TABLE event_floor (
    singleton INTEGER PRIMARY KEY
        CONSTRAINT event_floor_singleton_check CHECK (singleton = 1),
    epoch INTEGER NOT NULL,
    seq INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
    id BLOB PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL CONSTRAINT audit_action_check CHECK (action IN (
        'resource.provision', 'resource.deprovision', 'resource.retry', 'resource.replace',
        'resource.abandon', 'resource.reap', 'peer.force', 'guard.reset', 'project.create',
        'project.delete', 'placement.create', 'placement.terminate', 'blueprint.publish',
        'cloud.create', 'cloud.delete', 'credential.create', 'credential.revoke',
        'credential.delete', 'assignment.request', 'assignment.approve',
        'assignment.reject', 'assignment.revoke', 'label.define', 'label.write',
        'operator_token.create', 'operator_token.revoke'
    )),
    project BLOB,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL CHECK (json_valid(detail))
) STRICT;

CREATE TABLE idempotency_keys (
    caller TEXT NOT NULL,
    project BLOB NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL CONSTRAINT idempotency_keys_digest_check CHECK (length(digest) = 32),
    answer TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (caller, project, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at);
