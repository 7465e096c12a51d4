-- One row per crossing, written with it. The order of readers is (epoch, xid, seq): a row becomes
-- readable when every transaction before its own has ended, so no late commit is skipped.
CREATE TABLE events (
    epoch bigint NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq bigint GENERATED ALWAYS AS IDENTITY,
    id uuid NOT NULL,
    resource uuid NOT NULL,
    project uuid NOT NULL,
    version bigint NOT NULL,
    type text NOT NULL CONSTRAINT events_type_check CHECK (type IN (
        'broker.ProvisionedResourceRequested', 'broker.ProvisionedResourceReady',
        'broker.ProvisionedResourceFailed', 'broker.ProvisionedResourceDeleting',
        'broker.ProvisionedResourceDeleted'
    )),
    occurred_at timestamptz NOT NULL,
    data jsonb NOT NULL,
    PRIMARY KEY (epoch, xid, seq),
    CONSTRAINT events_crossing_key UNIQUE (resource, version)
);

-- The cursor of the last deleted event.
CREATE TABLE event_floor (
    singleton boolean PRIMARY KEY
        CONSTRAINT event_floor_singleton_check CHECK (singleton),
    epoch bigint NOT NULL,
    xid xid8 NOT NULL,
    seq bigint NOT NULL
);

CREATE TABLE audit (
    id uuid PRIMARY KEY,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    action text NOT NULL CONSTRAINT audit_action_check CHECK (action IN (
        'resource.provision', 'resource.deprovision', 'resource.retry', 'resource.replace',
        'resource.abandon', 'resource.reap', 'peer.force', 'guard.reset', 'project.create',
        'project.delete', 'placement.create', 'placement.terminate', 'blueprint.publish',
        'cloud.create', 'cloud.delete', 'credential.create', 'credential.revoke',
        'credential.delete', 'assignment.request', 'assignment.approve',
        'assignment.reject', 'assignment.revoke', 'label.define', 'label.write',
        'operator_token.create', 'operator_token.revoke'
    )),
    project uuid,
    subject text NOT NULL,
    detail jsonb NOT NULL
);

CREATE TABLE idempotency_keys (
    caller text NOT NULL,
    project uuid NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL CONSTRAINT idempotency_keys_digest_check CHECK (length(digest) = 32),
    answer text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (caller, project, key)
);
CREATE INDEX idempotency_keys_expires_at ON idempotency_keys (expires_at);
