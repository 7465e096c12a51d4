DROP INDEX machines_free;
DROP INDEX machines_gone;
