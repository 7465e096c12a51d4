-- The identity of each world, its highest observed revision, since when its mass-deletion guard is
-- tripped, and when it was last reset.
CREATE TABLE worlds (
    name text PRIMARY KEY,
    identity text NOT NULL,
    revision bigint NOT NULL CONSTRAINT worlds_revision_check CHECK (revision >= 0),
    tripped_at timestamptz,
    opened_at timestamptz
);
