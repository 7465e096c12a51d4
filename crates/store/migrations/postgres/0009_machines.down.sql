DROP TABLE fleet_lists;
DROP TABLE fleet_demands;
DROP TABLE machines;
DROP TABLE shards;
DELETE FROM events WHERE type LIKE 'fleet.%';
DELETE FROM audit WHERE action LIKE 'fleet.%' OR action = 'machine.settle';
ALTER TABLE events DROP CONSTRAINT events_type_check;
ALTER TABLE events ADD CONSTRAINT events_type_check CHECK (type IN (
    'broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
    'broker.ProvisionedResourceFailed', 'broker.ProvisionedResourceDeleting',
    'broker.ProvisionedResourceDeleted'
));
ALTER TABLE events ALTER COLUMN project SET NOT NULL;
ALTER TABLE audit DROP CONSTRAINT audit_action_check;
ALTER TABLE audit ADD CONSTRAINT audit_action_check CHECK (action IN (
    'resource.provision', 'resource.deprovision', 'resource.retry', 'resource.replace',
    'resource.abandon', 'resource.reap', 'peer.force', 'guard.reset', 'project.create',
    'project.delete', 'placement.create', 'placement.terminate', 'blueprint.publish',
    'blueprint.delete',
    'cloud.create', 'cloud.delete', 'credential.create', 'credential.revoke',
    'credential.delete', 'assignment.request', 'assignment.approve',
    'assignment.reject', 'assignment.revoke', 'label.define', 'label.write',
    'operator_token.create', 'operator_token.revoke'
));
