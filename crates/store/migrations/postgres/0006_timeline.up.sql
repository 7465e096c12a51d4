-- On which timeline of its server the database was last seen; a promotion or a recovery begins another.
ALTER TABLE installation ADD COLUMN timeline text;
