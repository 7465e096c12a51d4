DROP TABLE worlds;
