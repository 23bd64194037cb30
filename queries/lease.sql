-- name: AcquireLease :one
-- AcquireLease takes the job's lease for holder if it is free (never held, expired or released), in
-- one statement, and answers in any case with the lease as it now is. Acquired says whether holder
-- has it.
--
-- It reads first: where another holder's lease is live it writes nothing, locks nothing and waits
-- for nothing, and TimeLeft tells when to try again. A row that somebody has locked (an open guard,
-- a rival at work) counts as not free.
--
-- Asking again after a lost reply is safe. A live lease that holder has already, under a token
-- greater than known_token, is extended and keeps its token; one whose token is known_token or less
-- belongs to a term that holder has given up, and is taken over under a new token. Pass 0 for a
-- holder that had no term yet.
--
-- Late it may take a free lease for a holder that no longer asks: the job then has no leader for a
-- TTL, never two.
--
-- A takeover notifies the channel leader_lease with the job's name, for those who wait and those
-- who watch; nothing depends on it.
--
-- TTL is in seconds and may have a fraction. No row (sql.ErrNoRows) means that a rival created the
-- row while this statement ran, and holder's own name on a lease that is not acquired means that
-- the statement waited for longer than the TTL, or that the row is locked, as by the guard of a
-- term given up: ask again.
WITH candidate AS (
    SELECT l.job_name,
           l.token AS old_token,
           CASE
               WHEN l.holder = sqlc.arg(holder)
                    AND l.token > sqlc.arg(known_token)::bigint
                    AND l.expires_at > clock_timestamp()
               THEN l.token
               ELSE greatest(l.token, leader_token_floor()) + 1
           END AS next_token
    FROM leader_lease AS l
    WHERE l.job_name = sqlc.arg(job_name)
      AND (l.expires_at <= clock_timestamp() OR l.holder = sqlc.arg(holder))
    FOR UPDATE SKIP LOCKED
),
taken AS (
    UPDATE leader_lease AS l
    SET holder      = sqlc.arg(holder),
        token       = c.next_token,
        acquired_at = CASE
                          WHEN l.token = c.next_token THEN l.acquired_at
                          ELSE clock_timestamp()
                      END,
        renewed_at  = clock_timestamp(),
        expires_at  = clock_timestamp() + make_interval(secs => sqlc.arg(ttl_seconds)::float8)
    FROM candidate AS c
    WHERE l.job_name = c.job_name
    RETURNING l.job_name, l.holder, l.token, l.acquired_at, l.renewed_at, l.expires_at,
              CASE
                  WHEN l.token > c.old_token THEN pg_notify('leader_lease', l.job_name) IS NULL
              END AS notified
),
created AS (
    INSERT INTO leader_lease (job_name, holder, token, acquired_at, renewed_at, expires_at)
    SELECT sqlc.arg(job_name), sqlc.arg(holder),
           greatest(sqlc.arg(known_token)::bigint, leader_token_floor()) + 1,
           clock_timestamp(), clock_timestamp(),
           clock_timestamp() + make_interval(secs => sqlc.arg(ttl_seconds)::float8)
    WHERE NOT EXISTS (SELECT FROM leader_lease AS l WHERE l.job_name = sqlc.arg(job_name))
    ON CONFLICT DO NOTHING
    RETURNING job_name, holder, token, acquired_at, renewed_at, expires_at,
              pg_notify('leader_lease', job_name) IS NULL AS notified
),
answer AS (
    SELECT t.expires_at > clock_timestamp() AS acquired, t.* FROM taken AS t
    UNION ALL
    SELECT c.expires_at > clock_timestamp() AS acquired, c.* FROM created AS c
    UNION ALL
    SELECT false AS acquired, l.job_name, l.holder, l.token, l.acquired_at, l.renewed_at,
           l.expires_at, false AS notified
    FROM leader_lease AS l
    WHERE l.job_name = sqlc.arg(job_name)
      AND NOT EXISTS (SELECT FROM taken)
)
SELECT a.acquired::boolean AS acquired,
       a.job_name::text AS job_name,
       a.holder::text AS holder,
       a.token::bigint AS token,
       a.acquired_at::timestamptz AS acquired_at,
       a.renewed_at::timestamptz AS renewed_at,
       a.expires_at::timestamptz AS expires_at,
       extract(epoch FROM a.expires_at - clock_timestamp())::float8 AS time_left
FROM answer AS a;

-- name: DismissLease :execrows
-- DismissLease takes the job's live lease with exactly this token away from its holder, in the name
-- of whoever asks, and returns how many rows it changed. The holder's next renewal matches no row.
-- Nobody else can have the lease before it would have expired: until then the old holder may
-- believe in its term. So dismissed_by must be no candidate's holder, which could take the lease
-- for its own. 0 means that the lease has expired, or has another token: look again. It waits for
-- guarded transactions.
--
-- Late or doubled it does no harm: the token is another one by then.
UPDATE leader_lease
SET holder = sqlc.arg(dismissed_by),
    token  = token + 1
WHERE job_name = sqlc.arg(job_name)
  AND token = sqlc.arg(token)
  AND expires_at > clock_timestamp();

-- name: LookLease :one
-- LookLease reads one job's lease: what a candidate asks that waits for this job alone. TimeLeft is
-- in seconds by the database clock; zero or less means that the lease is free. No row
-- (sql.ErrNoRows) means that the job was never led: it is free too.
SELECT sqlc.embed(l), extract(epoch FROM l.expires_at - clock_timestamp())::float8 AS time_left
FROM leader_lease AS l
WHERE l.job_name = sqlc.arg(job_name);

-- name: LookLeases :many
-- LookLeases reads the leases of the jobs in a JSON array of names, in one statement: what a
-- process asks that waits for several. TimeLeft is in seconds by the database clock; zero or less
-- means that the lease is free. A job without a row was never led: it is free too.
--
-- LATERAL with LIMIT looks each name up by the index, and the rows are then read by their places.
-- The planner takes any JSON text for a hundred names; a join would scan the table for one.
SELECT sqlc.embed(l), extract(epoch FROM l.expires_at - clock_timestamp())::float8 AS time_left
FROM leader_lease AS l
WHERE (l).ctid = ANY (ARRAY(
    SELECT found.place
    FROM (
        SELECT jsonb_array_elements_text((sqlc.arg(job_names)::text)::jsonb) AS job_name
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT (t).ctid AS place
        FROM leader_lease AS t
        WHERE t.job_name = wanted.job_name
        LIMIT 1
    ) AS found
));

-- name: ListLeases :many
-- ListLeases reads every lease, by job name. TimeLeft is in seconds by the database clock; zero or
-- less means that nobody leads the job.
SELECT sqlc.embed(l), extract(epoch FROM l.expires_at - clock_timestamp())::float8 AS time_left
FROM leader_lease AS l
ORDER BY l.job_name;

-- name: RenewLease :execrows
-- RenewLease extends the live lease of exactly this job, holder and token to TTL seconds from some
-- moment of the call, and returns how many rows it changed: count the TTL from before the call. 0
-- means that the term is over: taken over, dismissed, expired or released. It never creates or
-- takes back a lease. Late or doubled it does no harm: it changes only this term's live lease.
UPDATE leader_lease
SET renewed_at = clock_timestamp(),
    expires_at = clock_timestamp() + make_interval(secs => sqlc.arg(ttl_seconds)::float8)
WHERE job_name = sqlc.arg(job_name)
  AND holder = sqlc.arg(holder)
  AND token = sqlc.arg(token)
  AND expires_at > clock_timestamp();

-- name: RenewLeases :many
-- RenewLeases does the same for many terms of one holder in one statement. Terms is a JSON array of
-- objects with job_name and token. It answers with one row for every term that is not over; Renewed
-- is false where somebody has locked the row: that term must be asked for again. No row for a term
-- means that it is over.
--
-- Locked rows are skipped, so that one lock in a psql session costs at most one term, not all of
-- the process. They are looked up only if there are any. A row that changes at this very moment
-- counts as locked too.
--
-- LATERAL with LIMIT looks each term up by the index, and the rows are then found by an array of
-- their places: there is nothing to join, and whatever the planner expects of a JSON text, or of a
-- table whose statistics are old, it can't make this quadratic. NOT IN is hashed, and so linear
-- too. (sqlc knows no system columns, hence (l).ctid.)
WITH wanted AS (
    SELECT t.term ->> 'job_name' AS job_name, (t.term ->> 'token')::bigint AS token
    FROM (SELECT jsonb_array_elements((sqlc.arg(terms)::text)::jsonb) AS term) AS t
),
unlocked AS (
    SELECT held.place
    FROM wanted AS w
    CROSS JOIN LATERAL (
        SELECT (l).ctid AS place
        FROM leader_lease AS l
        WHERE l.job_name = w.job_name
          AND l.token = w.token
          AND l.holder = sqlc.arg(holder)
          AND l.expires_at > clock_timestamp()
        LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS held
),
renewed AS (
    UPDATE leader_lease AS l
    SET renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + make_interval(secs => sqlc.arg(ttl_seconds)::float8)
    WHERE (l).ctid = ANY (ARRAY(SELECT u.place FROM unlocked AS u))
    RETURNING l.job_name, l.token
)
SELECT r.job_name, r.token, true AS renewed
FROM renewed AS r
UNION ALL
SELECT held.job_name, held.token, false AS renewed
FROM wanted AS w
CROSS JOIN LATERAL (
    SELECT l.job_name, l.token
    FROM leader_lease AS l
    WHERE l.job_name = w.job_name
      AND l.token = w.token
      AND l.holder = sqlc.arg(holder)
      AND l.expires_at > clock_timestamp()
    LIMIT 1
) AS held
WHERE (SELECT count(*) FROM renewed) < (SELECT count(*) FROM wanted)
  AND held.job_name NOT IN (SELECT r.job_name FROM renewed AS r);

-- name: ReleaseLease :one
-- ReleaseLease ends the lease of exactly this job, holder and token now, and returns how many rows
-- it changed. 0 means that it was over already. It notifies the channel leader_lease with the job's
-- name, so that whoever waits need not wait for its next look. Late or doubled it does no harm: a
-- successor's lease has another token.
WITH released AS (
    UPDATE leader_lease
    SET expires_at = clock_timestamp()
    WHERE job_name = sqlc.arg(job_name)
      AND holder = sqlc.arg(holder)
      AND token = sqlc.arg(token)
      AND expires_at > clock_timestamp()
    RETURNING job_name
)
SELECT count(pg_notify('leader_lease', r.job_name))::bigint AS released
FROM released AS r;

-- name: FreeLease :execrows
-- FreeLease ends a lease that only a wrong clock keeps alive, and returns how many rows it changed:
-- the database's clock was set back behind the renewal at renewed_at, so the time that the lease
-- has left says nothing. It is for a caller that has seen this renewed_at unchanged, by a clock of
-- its own, for longer than the lease was granted for, which is from renewed_at to expires_at. 0
-- means that the lease was renewed, taken over or freed since, or that somebody has locked its row.
-- Late or doubled it does no harm: a lease that was renewed since does not match.
WITH stopped AS (
    SELECT l.job_name
    FROM leader_lease AS l
    WHERE l.job_name = sqlc.arg(job_name)
      AND l.token = sqlc.arg(token)
      AND l.renewed_at = sqlc.arg(renewed_at)
      AND l.expires_at > clock_timestamp()
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE leader_lease AS l
SET expires_at = clock_timestamp()
FROM stopped AS s
WHERE l.job_name = s.job_name;

-- name: GuardLease :one
-- GuardLease, called in a transaction, holds off every successor until that transaction ends; the
-- holder's renewals pass. No row (sql.ErrNoRows) means that the term is over: roll back. Under
-- REPEATABLE READ and SERIALIZABLE a takeover that the transaction's snapshot does not show gives
-- SQLSTATE 40001 instead.
--
-- It asks whether anybody has taken the lease since, not whether the lease has expired: until
-- somebody takes it nobody can be overtaken, and then nobody can take it before the transaction
-- ends.
SELECT token
FROM leader_lease
WHERE job_name = sqlc.arg(job_name)
  AND holder = sqlc.arg(holder)
  AND token = sqlc.arg(token)
FOR KEY SHARE;

-- name: LeaseToken :one
-- LeaseToken returns the fencing token of the job's current or last term. It grows with every
-- takeover. No row (sql.ErrNoRows) means that the job was never led.
SELECT token
FROM leader_lease
WHERE job_name = sqlc.arg(job_name);
