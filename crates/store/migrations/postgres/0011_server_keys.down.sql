DELETE FROM audit WHERE action = 'key.rotate';
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
ALTER TABLE resources ADD COLUMN key_id text NOT NULL DEFAULT '';
UPDATE resources SET key_id = COALESCE((SELECT id FROM server_keys WHERE state = 'current'), '');
ALTER TABLE peers DROP COLUMN key_id;
DROP TABLE server_keys;
