-- One row per job is the lease: who leads the job, under which fencing token, and until when. A
-- row, once created, is never deleted, because the token must keep growing for as long as anything
-- remembers it. Renewals change no indexed column, and the low fillfactor leaves room beside each
-- row for its next version, so they stay heap-only (HOT). The unique index makes a takeover, which
-- changes the token, a key update: it waits for every transaction that holds the row FOR KEY SHARE,
-- while renewals pass. COLLATE "C" compares names byte for byte, and keeps the indexes valid when
-- an operating system upgrade changes the sort order of the database's default collation.

CREATE TABLE leader_lease (
    job_name    text        COLLATE "C" PRIMARY KEY,
    holder      text        COLLATE "C" NOT NULL,
    token       bigint      NOT NULL,
    acquired_at timestamptz NOT NULL,
    renewed_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    CONSTRAINT leader_lease_job_name_token_key UNIQUE (job_name, token),
    CONSTRAINT leader_lease_job_name_check CHECK (octet_length(job_name) BETWEEN 1 AND 1024),
    CONSTRAINT leader_lease_holder_check CHECK (octet_length(holder) BETWEEN 1 AND 255),
    CONSTRAINT leader_lease_token_check CHECK (token > 0)
) WITH (fillfactor = 40);

COMMENT ON TABLE leader_lease IS
    'pgleader: one row per job; the holder leads while expires_at is in the future. '
    'Never delete a row: its token would start again.';
COMMENT ON COLUMN leader_lease.job_name IS
    'What is led. Compared byte for byte, 1 to 1024 bytes.';
COMMENT ON COLUMN leader_lease.holder IS
    'The process that leads the job, or that led it last if expires_at has passed: '
    'name, then a random part made at its start.';
COMMENT ON COLUMN leader_lease.token IS
    'Fencing token of the current or last term. Grows by every takeover; '
    'a write that carries a smaller one is stale.';
COMMENT ON COLUMN leader_lease.acquired_at IS
    'When the current or last term began, by the database clock.';
COMMENT ON COLUMN leader_lease.renewed_at IS
    'When the holder last proved that it is alive, by the database clock.';
COMMENT ON COLUMN leader_lease.expires_at IS
    'Until when nobody else may lead, by the database clock. '
    'In the past: the job is free (released at that time, or expired).';

-- A standby that is promoted may never have heard of the last terms. Its timeline is a new one, and
-- greater; tokens that start there with the timeline in their upper 32 bits are greater than
-- whatever was lost. The names are looked up when the function runs, so that a compatible database
-- that lacks them can do without.

CREATE FUNCTION leader_token_floor() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN ((('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint) - 1) << 32;
EXCEPTION
    WHEN undefined_function OR insufficient_privilege OR feature_not_supported
        OR object_not_in_prerequisite_state THEN
        RETURN 0;
END
$$;

COMMENT ON FUNCTION leader_token_floor IS
    'pgleader: every token given out on this timeline of the server is greater. '
    '0 where the server has no timelines.';
