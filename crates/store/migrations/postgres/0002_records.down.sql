DROP TABLE label_definitions;
DROP TABLE labels;
DROP TABLE queue;
DROP TABLE names;
DROP TABLE tombstones;
DROP TABLE resources;
DROP TABLE provider_configs;
DROP TABLE records;
