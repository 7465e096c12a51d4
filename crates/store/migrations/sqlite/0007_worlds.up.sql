-- What each world said it is, the highest revision it showed, and since when its rail is tripped.
CREATE TABLE worlds (
    name TEXT PRIMARY KEY,
    identity TEXT NOT NULL,
    revision INTEGER NOT NULL CONSTRAINT worlds_revision_check CHECK (revision >= 0),
    tripped_at INTEGER
) STRICT;
