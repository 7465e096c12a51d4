DROP INDEX peers_heard_by;
ALTER TABLE peers DROP COLUMN heard_by;
DROP TABLE servers;
