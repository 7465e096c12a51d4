-- The receivers of the log over HTTP, and their cursors. A secret is stored by reference only.
CREATE TABLE sinks (
    name text PRIMARY KEY,
    url text NOT NULL,
    scheme text CONSTRAINT sinks_scheme_check CHECK (scheme IN ('bearer', 'hmac')),
    secret_place text CONSTRAINT sinks_secret_place_check CHECK (secret_place IN (
        'env', 'file'
    )),
    secret_name text,
    created_at timestamptz NOT NULL,
    -- Everything up to this place of the log was delivered.
    epoch bigint NOT NULL,
    xid xid8 NOT NULL,
    seq bigint NOT NULL,
    delivered_at timestamptz,
    -- One relay delivers at a time.
    lease_until timestamptz,
    fence bigint NOT NULL CONSTRAINT sinks_fence_check CHECK (fence >= 0),
    -- Failures since the last delivery, and when to try again.
    attempts bigint NOT NULL CONSTRAINT sinks_attempts_check CHECK (attempts >= 0),
    failing_since timestamptz,
    retry_at timestamptz,
    trouble text,
    parked text CONSTRAINT sinks_parked_check CHECK (parked IN (
        'gone', 'refused', 'forgotten', 'moved', 'asked'
    )),
    CONSTRAINT sinks_secret_check CHECK (
        (scheme IS NULL) = (secret_place IS NULL) AND (scheme IS NULL) = (secret_name IS NULL)
    ),
    CONSTRAINT sinks_failing_check CHECK ((attempts = 0) = (failing_since IS NULL))
);
