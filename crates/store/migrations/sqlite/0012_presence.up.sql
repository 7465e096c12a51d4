-- The process that has the file open. The number of an earlier process is never used again.
CREATE TABLE servers (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    started_at INTEGER NOT NULL
) STRICT;

-- The server that receives the heartbeats of a peer, written when that changes.
ALTER TABLE peers ADD COLUMN claimed_by INTEGER;
CREATE INDEX peers_claimed_by ON peers (claimed_by)
    WHERE stage <> 'deregistered' AND lost_since IS NULL;
