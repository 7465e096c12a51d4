-- The identity of each world, its highest observed revision, since when its mass-deletion guard is
-- tripped, and when it was last reset.
CREATE TABLE worlds (
    name TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    revision INTEGER NOT NULL CONSTRAINT worlds_revision_check CHECK (revision >= 0),
    tripped_at INTEGER,
    opened_at INTEGER
) STRICT;
