-- Bootstrap tokens: what a text is checked against, never the text.
CREATE TABLE tokens (
    id uuid PRIMARY KEY,
    resource uuid NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    project uuid NOT NULL,
    generation bigint NOT NULL CONSTRAINT tokens_generation_check CHECK (generation >= 1),
    key_id text NOT NULL,
    verifier bytea NOT NULL CONSTRAINT tokens_verifier_check CHECK (length(verifier) = 32),
    issued_at timestamptz NOT NULL,
    first_ready_at timestamptz,
    lifetime_us bigint NOT NULL CONSTRAINT tokens_lifetime_check CHECK (lifetime_us > 0),
    consumed_by uuid,
    consumed_nonce text,
    consumed_key text,
    consumed_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT tokens_generation_key UNIQUE (resource, generation),
    CONSTRAINT tokens_consumed_check CHECK (
        (consumed_by IS NULL) = (consumed_at IS NULL)
        AND (consumed_nonce IS NULL) = (consumed_at IS NULL)
        AND (consumed_key IS NULL) = (consumed_at IS NULL)
    ),
    CONSTRAINT tokens_end_check CHECK (consumed_at IS NULL OR revoked_at IS NULL)
);

CREATE TABLE peers (
    id uuid PRIMARY KEY,
    token uuid NOT NULL CONSTRAINT peers_token_key UNIQUE
        REFERENCES tokens (id) ON DELETE CASCADE,
    resource uuid NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    generation bigint NOT NULL CONSTRAINT peers_generation_check CHECK (generation >= 1),
    project uuid NOT NULL,
    nonce text NOT NULL,
    public_key text NOT NULL,
    registered_at timestamptz NOT NULL,
    stage text NOT NULL CONSTRAINT peers_stage_check CHECK (stage IN (
        'registered', 'cordoned', 'draining', 'deregistered'
    )),
    cordoned_at timestamptz,
    key_revoked_at timestamptz,
    deregistered_at timestamptz,
    cause text CONSTRAINT peers_cause_check CHECK (cause IN (
        'acknowledged', 'timed_out', 'grace_elapsed', 'forced'
    )),
    forced_by text,
    forced_at timestamptz,
    -- Written when a peer is lost or live again, not at every heartbeat.
    lost_since timestamptz,
    CONSTRAINT peers_stage_times_check CHECK (
        (stage = 'registered' AND cordoned_at IS NULL AND key_revoked_at IS NULL
            AND deregistered_at IS NULL AND cause IS NULL)
        OR (stage = 'cordoned' AND cordoned_at IS NOT NULL AND key_revoked_at IS NULL
            AND deregistered_at IS NULL AND cause IS NULL)
        OR (stage = 'draining' AND cordoned_at IS NOT NULL AND key_revoked_at IS NOT NULL
            AND deregistered_at IS NULL AND cause IS NULL)
        OR (stage = 'deregistered' AND key_revoked_at IS NOT NULL
            AND deregistered_at IS NOT NULL AND cause IS NOT NULL)
    ),
    CONSTRAINT peers_forced_check CHECK ((forced_by IS NULL) = (forced_at IS NULL))
);
CREATE INDEX peers_resource ON peers (resource);
CREATE INDEX peers_project ON peers (project) WHERE stage <> 'deregistered';
