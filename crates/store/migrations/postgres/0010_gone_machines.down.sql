DROP INDEX machines_gone;
