-- A drain, for other servers: since when acknowledgements are requested, and the newest snapshot
-- that a peer acknowledged to the server it is connected to.
ALTER TABLE peers ADD COLUMN asked_at INTEGER;
ALTER TABLE peers ADD COLUMN acknowledged INTEGER
    CONSTRAINT peers_acknowledged_check CHECK (acknowledged >= 0);
CREATE INDEX peers_leaving ON peers (project) WHERE stage IN ('cordoned', 'draining');

-- The removal of a blueprint version is audited like any other command. A check cannot be changed,
-- so the table is made again.
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
