-- Machines that are gone are found when the log forgets them.
CREATE INDEX machines_gone ON machines (id) WHERE phase = 'Gone';
