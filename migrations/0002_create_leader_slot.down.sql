-- Forgets which slots were run: a worker that starts afterwards may run a slot of the recent past
-- again.

DROP TABLE leader_slot;
