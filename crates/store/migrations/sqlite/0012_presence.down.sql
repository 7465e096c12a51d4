DROP INDEX peers_claimed_by;
ALTER TABLE peers DROP COLUMN claimed_by;
DROP TABLE servers;
