DROP TABLE peers;
DROP TABLE tokens;
