-- The servers that share the database. A server is present while its session holds the advisory lock
-- of its number; the number of a server that is gone is never used again.
CREATE TABLE servers (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    started_at timestamptz NOT NULL
);

-- The server that receives the heartbeats of a peer, written when that changes.
ALTER TABLE peers ADD COLUMN claimed_by bigint;
CREATE INDEX peers_claimed_by ON peers (claimed_by)
    WHERE stage <> 'deregistered' AND lost_since IS NULL;
