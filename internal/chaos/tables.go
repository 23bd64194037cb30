//go:build unix

package main

import (
	"context"
	"database/sql"
)

// tables is what the run adds to the schema: what workers write, and triggers that see every change
// of leases and slots from inside its transaction. One sequence numbers all of it. So the numbers
// tell what came first where a lock makes one wait for the other.
const tables = `
CREATE SEQUENCE chaos_seq;

CREATE TABLE chaos_register (
    job_name text PRIMARY KEY, value bigint NOT NULL, token bigint NOT NULL
);

CREATE TABLE chaos_write (
    seq bigint NOT NULL DEFAULT nextval('chaos_seq'),
    job_name text NOT NULL, worker text NOT NULL, token bigint NOT NULL, value bigint NOT NULL
);
CREATE INDEX ON chaos_write (job_name);

CREATE TABLE chaos_effect (
    job_name text NOT NULL, slot timestamptz NOT NULL, token bigint NOT NULL
);
CREATE INDEX ON chaos_effect (job_name);

CREATE TABLE chaos_lease (
    seq bigint NOT NULL DEFAULT nextval('chaos_seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    op text NOT NULL,
    job_name text NOT NULL,
    old leader_lease, new leader_lease
);
CREATE INDEX ON chaos_lease (job_name);

CREATE FUNCTION chaos_see_lease() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_op = 'INSERT' THEN
        INSERT INTO chaos_lease (op, job_name, new) VALUES (tg_op, new.job_name, new);
    ELSIF tg_op = 'DELETE' THEN
        INSERT INTO chaos_lease (op, job_name, old) VALUES (tg_op, old.job_name, old);
    ELSE
        INSERT INTO chaos_lease (op, job_name, old, new) VALUES (tg_op, new.job_name, old, new);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_lease AFTER INSERT OR UPDATE OR DELETE ON leader_lease FOR EACH ROW
EXECUTE FUNCTION chaos_see_lease();

CREATE TABLE chaos_slot (
    seq bigint NOT NULL DEFAULT nextval('chaos_seq'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    op text NOT NULL,
    job_name text NOT NULL,
    old leader_slot, new leader_slot
);
CREATE INDEX ON chaos_slot (job_name);

CREATE FUNCTION chaos_see_slot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF tg_op = 'INSERT' THEN
        INSERT INTO chaos_slot (op, job_name, new) VALUES (tg_op, new.job_name, new);
    ELSIF tg_op = 'DELETE' THEN
        INSERT INTO chaos_slot (op, job_name, old) VALUES (tg_op, old.job_name, old);
    ELSE
        INSERT INTO chaos_slot (op, job_name, old, new) VALUES (tg_op, new.job_name, old, new);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_slot AFTER INSERT OR UPDATE OR DELETE ON leader_slot FOR EACH ROW
EXECUTE FUNCTION chaos_see_slot();
`

func createTables(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, tables)
	return err
}
