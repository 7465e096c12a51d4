-- What each world said it is, the highest revision it showed, and since when its rail is tripped.
CREATE TABLE worlds (
    name text PRIMARY KEY,
    identity text NOT NULL,
    revision bigint NOT NULL CONSTRAINT worlds_revision_check CHECK (revision >= 0),
    tripped_at timestamptz
);
