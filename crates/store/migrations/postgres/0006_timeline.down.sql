ALTER TABLE installation DROP COLUMN timeline;
