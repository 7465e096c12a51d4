DROP TABLE sinks;
