-- Forgets every token. Whatever remembers one (a token column in a table of the application) must
-- be reset with it.

DROP TABLE leader_lease;
DROP FUNCTION leader_token_floor();
