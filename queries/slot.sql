-- name: ClaimSlot :one
-- ClaimSlot starts the next attempt of a slot under the caller's term: attempt last_attempt + 1, if
-- the slot has had exactly last_attempt. Pass 0 for a slot that is not known to be on record.
-- Claimed says whether the caller is to run it; the other columns describe the slot as it now is.
--
-- The term must be live, the slot's time must have come by the database clock, and the slot must
-- not be decided. A slot that was not started, was abandoned, or is left running by an older term
-- may be started while it has had fewer than max_attempts; so may one that failed, if
-- repeat_failed. One that somebody requested may be started in any case. A term does not start a
-- slot again that was abandoned under it: it was cut off there, or given back.
--
-- No row (sql.ErrNoRows) means that the slot has no row and was not started: its time has not come,
-- or the term is over.
--
-- Asking again after a lost answer is safe: the attempt that runs under the caller's own token is
-- claimed already. Late or doubled it does no harm: the slot has had more attempts by then, or its
-- attempt was given back, and this term does not start it again. Only a row that was deleted
-- forgets that, so delete none that was decided within the last minute.
WITH term AS (
    SELECT l.job_name
    FROM leader_lease AS l
    WHERE l.job_name = sqlc.arg(job_name)
      AND l.holder = sqlc.arg(holder)
      AND l.token = sqlc.arg(token)
      AND l.expires_at > clock_timestamp()
    FOR KEY SHARE
),
claimed AS (
    INSERT INTO leader_slot AS s (job_name, slot, state, attempt, token, holder, started_at)
    SELECT t.job_name, sqlc.arg(slot), 'running', sqlc.arg(last_attempt)::integer + 1,
           sqlc.arg(token), sqlc.arg(holder), clock_timestamp()
    FROM term AS t
    WHERE sqlc.arg(slot)::timestamptz <= clock_timestamp()
    ON CONFLICT (job_name, slot) DO UPDATE
    SET state       = 'running',
        attempt     = excluded.attempt,
        token       = excluded.token,
        holder      = excluded.holder,
        started_at  = CASE
                          WHEN s.attempt = excluded.attempt THEN s.started_at
                          ELSE excluded.started_at
                      END,
        finished_at = NULL,
        error       = CASE
                          WHEN s.state = 'requested' OR s.attempt = excluded.attempt THEN s.error
                          ELSE ''
                      END
    WHERE (s.attempt = excluded.attempt AND s.state = 'running' AND s.token = excluded.token)
       OR (s.attempt = excluded.attempt - 1
           AND (s.state = 'requested'
                OR (s.attempt < sqlc.arg(max_attempts)::integer
                    AND ((s.state = 'abandoned' AND s.token < excluded.token)
                         OR (s.state = 'running' AND s.token < excluded.token)
                         OR (s.state = 'failed' AND sqlc.arg(repeat_failed)::boolean)))))
    RETURNING s.state, s.attempt, s.token
),
answer AS (
    SELECT true AS claimed, c.state, c.attempt, c.token FROM claimed AS c
    UNION ALL
    SELECT false AS claimed, s.state, s.attempt, s.token
    FROM leader_slot AS s
    WHERE s.job_name = sqlc.arg(job_name)
      AND s.slot = sqlc.arg(slot)
      AND NOT EXISTS (SELECT FROM claimed)
)
SELECT a.claimed::boolean AS claimed,
       a.state::text AS state,
       a.attempt::integer AS attempt,
       a.token::bigint AS token
FROM answer AS a;

-- name: FinishSlot :execrows
-- FinishSlot records the end of the attempt that runs under exactly this term, and returns how many
-- rows it changed. 0 means that this attempt is not running any more: it was finished already, or a
-- successor has taken the slot over. State is done, failed or abandoned.
--
-- Late or doubled it does no harm: an attempt ends once, and the next one has another number.
UPDATE leader_slot
SET state       = sqlc.arg(state),
    finished_at = clock_timestamp(),
    error       = sqlc.arg(error)
WHERE job_name = sqlc.arg(job_name)
  AND slot = sqlc.arg(slot)
  AND holder = sqlc.arg(holder)
  AND token = sqlc.arg(token)
  AND attempt = sqlc.arg(attempt)
  AND state = 'running';

-- name: GiveBackSlot :execrows
-- GiveBackSlot undoes a claim whose work was never begun, and returns how many rows it changed. The
-- slot is abandoned, and the attempt does not count. With keep_request a run that was requested,
-- which says in error who did, is requested again. 0 means that the attempt was not claimed, or is
-- not running any more.
--
-- Late or doubled it does no harm: this term does not claim the attempt again, and another one has
-- another token. RequestSlot sees to the first, and a request that is kept keeps its number.
UPDATE leader_slot AS s
SET state       = CASE WHEN k.keep AND s.error <> '' THEN 'requested' ELSE 'abandoned' END,
    attempt     = CASE WHEN k.keep AND s.error <> '' THEN s.attempt ELSE s.attempt - 1 END,
    started_at  = NULL,
    finished_at = CASE WHEN k.keep AND s.error <> '' THEN NULL ELSE clock_timestamp() END,
    error       = CASE WHEN k.keep AND s.error <> '' THEN s.error ELSE sqlc.arg(error) END
FROM (SELECT sqlc.arg(keep_request)::boolean AS keep) AS k
WHERE s.job_name = sqlc.arg(job_name)
  AND s.slot = sqlc.arg(slot)
  AND s.holder = sqlc.arg(holder)
  AND s.token = sqlc.arg(token)
  AND s.attempt = sqlc.arg(attempt)
  AND s.state = 'running';

-- name: ReadSlot :one
-- ReadSlot returns the state of one slot and the database's time. Always one row: State is empty if
-- nobody has started the slot, nor recorded it as missed.
SELECT clock_timestamp()::timestamptz AS now,
       coalesce(max(s.state), '')::text AS state,
       coalesce(max(s.attempt), 0)::integer AS attempt,
       coalesce(max(s.token), 0)::bigint AS token
FROM leader_slot AS s
WHERE s.job_name = sqlc.arg(job_name)
  AND s.slot = sqlc.arg(slot);

-- name: ListSlots :many
-- ListSlots returns a job's newest slots, newest first.
SELECT job_name, slot, state, attempt, token, holder, started_at, finished_at, error
FROM leader_slot
WHERE job_name = sqlc.arg(job_name)
ORDER BY slot DESC
LIMIT sqlc.arg(max_rows);

-- name: SurveySlots :one
-- SurveySlots tells where a job stands: the database's time, the newest slot up to then that has a
-- row, whether a slot is requested, and when the job's current or last term began and was last
-- renewed. These times are 1970-01-01 00:00:00 UTC if there are none. Always one row.
--
-- Later slots have rows if the database's clock was ahead for a while; they must not hold the
-- schedule up. The clock is read in a subquery, once, so that the index finds the slot.
SELECT clock_timestamp()::timestamptz AS now,
       coalesce((
           SELECT max(s.slot)
           FROM leader_slot AS s
           WHERE s.job_name = sqlc.arg(job_name) AND s.slot <= (SELECT clock_timestamp())
       ), to_timestamp(0))::timestamptz AS newest,
       EXISTS (
           SELECT
           FROM leader_slot AS s
           WHERE s.job_name = sqlc.arg(job_name) AND s.state = 'requested'
       ) AS requested,
       coalesce((
           SELECT l.acquired_at FROM leader_lease AS l WHERE l.job_name = sqlc.arg(job_name)
       ), to_timestamp(0))::timestamptz AS acquired_at,
       coalesce((
           SELECT l.renewed_at FROM leader_lease AS l WHERE l.job_name = sqlc.arg(job_name)
       ), to_timestamp(0))::timestamptz AS renewed_at;

-- name: AbandonSlots :many
-- AbandonSlots marks the job's slots that older terms left running as abandoned, and returns the
-- slots that may be started again, oldest first, with the attempts that they have had: those
-- requested, and since the given one those abandoned under older terms, and with repeat_failed
-- those that failed, with fewer than max_attempts. One that has had no attempt, for it was given
-- back, may be started only since first_since. It writes nothing unless the caller's term is live.
--
-- Late or doubled it does no harm: what an older term left running stays abandoned, or has been
-- started since under a token that is not older.
WITH term AS (
    SELECT l.job_name, l.token
    FROM leader_lease AS l
    WHERE l.job_name = sqlc.arg(job_name)
      AND l.holder = sqlc.arg(holder)
      AND l.token = sqlc.arg(token)
      AND l.expires_at > clock_timestamp()
    FOR KEY SHARE
),
abandoned AS (
    UPDATE leader_slot AS s
    SET state       = 'abandoned',
        finished_at = clock_timestamp(),
        error       = 'the term of ' || s.holder || ' ended before the work did'
    FROM term AS t
    WHERE s.job_name = t.job_name
      AND s.state = 'running'
      AND s.token < t.token
    RETURNING s.slot
)
SELECT s.slot, s.attempt
FROM leader_slot AS s
LEFT JOIN abandoned AS a ON a.slot = s.slot
WHERE s.job_name = sqlc.arg(job_name)
  AND (s.state = 'requested'
       OR ((a.slot IS NOT NULL
            OR (s.state = 'abandoned' AND s.token < sqlc.arg(token))
            OR (s.state = 'failed' AND sqlc.arg(repeat_failed)::boolean))
           AND s.attempt < sqlc.arg(max_attempts)::integer
           AND s.slot >= sqlc.arg(since)
           AND (s.attempt > 0 OR s.slot >= sqlc.arg(first_since))))
ORDER BY s.slot;

-- name: RequestSlot :execrows
-- RequestSlot marks a slot that is not running, and has had exactly this many attempts, to be
-- started again: by whoever leads the job by Run, or calls RunDue or RunSlot. It returns how many
-- rows it changed. 0 means that the slot has no row, is running, or has been started since.
--
-- Late or doubled it does no harm: once the requested run has begun, the attempt is another one.
-- An attempt that was given back counts from here on. The term that gave it back may claim a
-- requested slot, and what still arrives late of that attempt must not concern the next one.
UPDATE leader_slot
SET state       = 'requested',
    attempt     = CASE
                      WHEN state = 'abandoned' AND started_at IS NULL THEN attempt + 1
                      ELSE attempt
                  END,
    finished_at = NULL,
    error       = sqlc.arg(error)
WHERE job_name = sqlc.arg(job_name)
  AND slot = sqlc.arg(slot)
  AND attempt = sqlc.arg(attempt)
  AND state <> 'running';

-- name: MissSlots :execrows
-- MissSlots records the slots in a JSON array of timestamps as missed under the caller's term,
-- unless they have rows, and returns how many it recorded. It writes nothing unless the term is
-- live.
--
-- Late or doubled it does no harm: a slot that has a row by then is left as it is.
WITH term AS (
    SELECT l.job_name
    FROM leader_lease AS l
    WHERE l.job_name = sqlc.arg(job_name)
      AND l.holder = sqlc.arg(holder)
      AND l.token = sqlc.arg(token)
      AND l.expires_at > clock_timestamp()
    FOR KEY SHARE
)
INSERT INTO leader_slot (job_name, slot, state, attempt, token, holder, finished_at, error)
SELECT t.job_name, w.slot::timestamptz, 'missed', 0, sqlc.arg(token), sqlc.arg(holder),
       clock_timestamp(), sqlc.arg(error)
FROM term AS t
CROSS JOIN (
    SELECT jsonb_array_elements_text((sqlc.arg(slots)::text)::jsonb) AS slot
) AS w
ON CONFLICT (job_name, slot) DO NOTHING;

-- name: PruneSlots :execrows
-- PruneSlots deletes at most max_rows slots of the job that came, and were decided, more than
-- keep_seconds ago, and returns how many it deleted. It never deletes a running or requested slot,
-- nor the newest slot of the job that has come, which tells where the schedule stands. It waits for
-- no row that somebody has locked, for slots that are due wait for it. Keep a minute at least: a
-- late ClaimSlot would start a slot again that nobody remembers.
--
-- The clock is read in subqueries, once, so that the index finds the old slots. Late or doubled it
-- does no harm: what it deletes is old enough.
WITH old AS (
    SELECT o.slot
    FROM leader_slot AS o
    WHERE o.job_name = sqlc.arg(job_name)
      AND o.state NOT IN ('running', 'requested')
      AND o.slot < (
          SELECT clock_timestamp() - make_interval(secs => sqlc.arg(keep_seconds)::float8)
      )
      AND o.finished_at < (
          SELECT clock_timestamp() - make_interval(secs => sqlc.arg(keep_seconds)::float8)
      )
      AND o.slot < (
          SELECT max(n.slot)
          FROM leader_slot AS n
          WHERE n.job_name = sqlc.arg(job_name)
            AND n.slot <= (SELECT clock_timestamp())
      )
    ORDER BY o.slot
    LIMIT sqlc.arg(max_rows)
    FOR UPDATE SKIP LOCKED
)
DELETE FROM leader_slot AS s
WHERE s.job_name = sqlc.arg(job_name)
  AND s.slot IN (SELECT old.slot FROM old)
  AND s.state NOT IN ('running', 'requested');
