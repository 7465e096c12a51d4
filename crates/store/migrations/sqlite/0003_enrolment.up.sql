-- Bootstrap tokens: what a TEXT is checked against, never the TEXT.
CREATE TABLE tokens (
    id BLOB PRIMARY KEY,
    resource BLOB NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    project BLOB NOT NULL,
    generation INTEGER NOT NULL CONSTRAINT tokens_generation_check CHECK (generation >= 1),
    key_id TEXT NOT NULL,
    verifier BLOB NOT NULL CONSTRAINT tokens_verifier_check CHECK (length(verifier) = 32),
    issued_at INTEGER NOT NULL,
    first_ready_at INTEGER,
    lifetime_us INTEGER NOT NULL CONSTRAINT tokens_lifetime_check CHECK (lifetime_us > 0),
    consumed_by BLOB,
    consumed_nonce TEXT,
    consumed_key TEXT,
    consumed_at INTEGER,
    revoked_at INTEGER,
    CONSTRAINT tokens_generation_key UNIQUE (resource, generation),
    CONSTRAINT tokens_consumed_check CHECK (
        (consumed_by IS NULL) = (consumed_at IS NULL)
        AND (consumed_nonce IS NULL) = (consumed_at IS NULL)
        AND (consumed_key IS NULL) = (consumed_at IS NULL)
    ),
    CONSTRAINT tokens_end_check CHECK (consumed_at IS NULL OR revoked_at IS NULL)
) STRICT;

CREATE TABLE peers (
    id BLOB PRIMARY KEY,
    token BLOB NOT NULL CONSTRAINT peers_token_key UNIQUE
        REFERENCES tokens (id) ON DELETE CASCADE,
    resource BLOB NOT NULL REFERENCES resources (id) ON DELETE CASCADE,
    generation INTEGER NOT NULL CONSTRAINT peers_generation_check CHECK (generation >= 1),
    project BLOB NOT NULL,
    nonce TEXT NOT NULL,
    public_key TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    stage TEXT NOT NULL CONSTRAINT peers_stage_check CHECK (stage IN (
        'registered', 'cordoned', 'draining', 'deregistered'
    )),
    cordoned_at INTEGER,
    key_revoked_at INTEGER,
    deregistered_at INTEGER,
    cause TEXT CONSTRAINT peers_cause_check CHECK (cause IN (
        'acknowledged', 'timed_out', 'grace_elapsed', 'forced'
    )),
    forced_by TEXT,
    forced_at INTEGER,
    -- Written when a peer is lost or live again, not at every heartbeat.
    lost_since INTEGER,
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
) STRICT;
CREATE INDEX peers_resource ON peers (resource);
CREATE INDEX peers_project ON peers (project) WHERE stage <> 'deregistered';
