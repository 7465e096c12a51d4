DELETE FROM audit WHERE action = 'blueprint.delete';
ALTER TABLE audit DROP CONSTRAINT audit_action_check;
ALTER TABLE audit ADD CONSTRAINT audit_action_check CHECK (action IN (
    'resource.provision', 'resource.deprovision', 'resource.retry', 'resource.replace',
    'resource.abandon', 'resource.reap', 'peer.force', 'guard.reset', 'project.create',
    'project.delete', 'placement.create', 'placement.terminate', 'blueprint.publish',
    'cloud.create', 'cloud.delete', 'credential.create', 'credential.revoke',
    'credential.delete', 'assignment.request', 'assignment.approve',
    'assignment.reject', 'assignment.revoke', 'label.define', 'label.write',
    'operator_token.create', 'operator_token.revoke'
));
DROP INDEX peers_leaving;
ALTER TABLE peers DROP COLUMN acknowledged;
ALTER TABLE peers DROP COLUMN asked_at;
