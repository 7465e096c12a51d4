DROP TABLE fleet_lists;
DROP TABLE fleet_demands;
DROP TABLE machines;
DROP TABLE shards;
DELETE FROM events WHERE type LIKE 'fleet.%';
DELETE FROM audit WHERE action LIKE 'fleet.%' OR action = 'machine.settle';
CREATE TABLE events_rebuilt (
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
        'operator_token.create', 'operator_token.revoke'
    )),
    project BLOB,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL CHECK (json_valid(detail))
) STRICT;
INSERT INTO audit_rebuilt SELECT id, at, actor, action, project, subject, detail FROM audit;
DROP TABLE audit;
ALTER TABLE audit_rebuilt RENAME TO audit;
