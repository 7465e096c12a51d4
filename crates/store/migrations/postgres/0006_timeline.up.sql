-- The server timeline that the database was last seen on; a promotion or recovery begins another.
ALTER TABLE installation ADD COLUMN timeline text;
