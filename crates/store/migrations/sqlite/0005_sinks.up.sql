-- The receivers of the log over HTTP, and their cursors. A secret is stored by reference only.
CREATE TABLE sinks (
    name TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    scheme TEXT CONSTRAINT sinks_scheme_check CHECK (scheme IN ('bearer', 'hmac')),
    secret_place TEXT CONSTRAINT sinks_secret_place_check CHECK (secret_place IN (
        'env', 'file'
    )),
    secret_name TEXT,
    created_at INTEGER NOT NULL,
    -- Everything up to this place of the log was delivered.
    epoch INTEGER NOT NULL,
    xid INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    delivered_at INTEGER,
    -- One relay delivers at a time.
    lease_until INTEGER,
    fence INTEGER NOT NULL CONSTRAINT sinks_fence_check CHECK (fence >= 0),
    -- Failures since the last delivery, and when to try again.
    attempts INTEGER NOT NULL CONSTRAINT sinks_attempts_check CHECK (attempts >= 0),
    failing_since INTEGER,
    retry_at INTEGER,
    trouble TEXT,
    parked TEXT CONSTRAINT sinks_parked_check CHECK (parked IN (
        'gone', 'refused', 'forgotten', 'moved', 'asked'
    )),
    CONSTRAINT sinks_secret_check CHECK (
        (scheme IS NULL) = (secret_place IS NULL) AND (scheme IS NULL) = (secret_name IS NULL)
    ),
    CONSTRAINT sinks_failing_check CHECK ((attempts = 0) = (failing_since IS NULL))
) STRICT;
