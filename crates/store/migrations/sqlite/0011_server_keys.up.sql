-- The keys that secrets are derived with, by id. The keys themselves are in the key file.
CREATE TABLE server_keys (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL CONSTRAINT server_keys_state_check CHECK (state IN (
        'current', 'previous', 'retired'
    )),
    current_since INTEGER NOT NULL,
    superseded_at INTEGER,
    retired_at INTEGER,
    CONSTRAINT server_keys_times_check CHECK (
        (state = 'current') = (superseded_at IS NULL)
        AND (state = 'retired') = (retired_at IS NOT NULL)
    )
) STRICT;
CREATE UNIQUE INDEX server_keys_current ON server_keys (state) WHERE state = 'current';
INSERT INTO server_keys (id, state, current_since, superseded_at)
    SELECT key_id, 'previous', MIN(issued_at), MAX(issued_at) FROM tokens GROUP BY key_id;
UPDATE server_keys SET state = 'current', superseded_at = NULL
    WHERE id = (SELECT key_id FROM tokens ORDER BY issued_at DESC, id LIMIT 1);

-- The key of the secret that a peer calls with.
ALTER TABLE peers ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
UPDATE peers SET key_id = (SELECT t.key_id FROM tokens AS t WHERE t.id = peers.token);

-- A token is issued with the current key: a resource needs no pin.
ALTER TABLE resources DROP COLUMN key_id;

-- A check cannot be changed, so the table is made again.
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
        'operator_token.create', 'operator_token.revoke', 'key.rotate',
        'fleet.demand', 'fleet.pause', 'fleet.resume', 'fleet.dry_run', 'machine.settle'
    )),
    project BLOB,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL CHECK (json_valid(detail))
) STRICT;
INSERT INTO audit_rebuilt SELECT id, at, actor, action, project, subject, detail FROM audit;
DROP TABLE audit;
ALTER TABLE audit_rebuilt RENAME TO audit;
