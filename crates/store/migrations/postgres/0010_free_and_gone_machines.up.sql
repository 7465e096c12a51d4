-- Machines that are gone are found when their last event is deleted.
CREATE INDEX machines_gone ON machines (id) WHERE phase = 'Gone';
-- A resource takes the first machine that no resource holds, however many are held.
CREATE INDEX machines_free ON machines (owner, phase, id)
    WHERE phase <> 'Gone' AND holder IS NULL AND NOT disputed;
