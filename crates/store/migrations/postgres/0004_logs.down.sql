DROP TABLE idempotency_keys;
DROP TABLE audit;
DROP TABLE event_floor;
DROP TABLE events;
