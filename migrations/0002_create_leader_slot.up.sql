-- One row per scheduled occurrence of a job: whether it was run, by whom, and how it ended. A lease
-- alone does not make the nightly report run once a night: a short report frees the job before
-- another instance's clock has come to the slot. A slot is claimed and finished under the fencing
-- token of a term, so that whoever lost its term can decide nothing any more.

CREATE TABLE leader_slot (
    job_name    text        COLLATE "C" NOT NULL,
    slot        timestamptz NOT NULL,
    state       text        NOT NULL,
    attempt     integer     NOT NULL,
    token       bigint      NOT NULL,
    holder      text        COLLATE "C" NOT NULL,
    started_at  timestamptz,
    finished_at timestamptz,
    error       text        NOT NULL DEFAULT '',
    PRIMARY KEY (job_name, slot),
    CONSTRAINT leader_slot_job_name_check CHECK (octet_length(job_name) BETWEEN 1 AND 1024),
    CONSTRAINT leader_slot_state_check CHECK (
        state IN ('running', 'done', 'failed', 'abandoned', 'missed', 'requested')
    ),
    CONSTRAINT leader_slot_attempt_check CHECK (attempt >= 0)
) WITH (fillfactor = 70);

CREATE INDEX leader_slot_open_key ON leader_slot (job_name) WHERE state IN ('running', 'requested');

COMMENT ON TABLE leader_slot IS
    'pgleader: one row per scheduled occurrence of a job. Rows of decided slots may be deleted '
    'when nobody asks for them any more, except the newest of each job.';
COMMENT ON COLUMN leader_slot.job_name IS
    'What was to run.';
COMMENT ON COLUMN leader_slot.slot IS
    'When it was to run: an instant of the schedule.';
COMMENT ON COLUMN leader_slot.state IS
    'running; done; failed: the work returned an error; abandoned: its term ended before it did; '
    'missed: nobody could run it in time; requested: to be run again, on request.';
COMMENT ON COLUMN leader_slot.attempt IS
    'How often it was started, 0 if never. A greater number than 1 is a run again after a crash, '
    'or on request.';
COMMENT ON COLUMN leader_slot.token IS
    'Fencing token of the term that started it last, or recorded it as missed.';
COMMENT ON COLUMN leader_slot.holder IS
    'The process that started it last, or recorded it as missed.';
COMMENT ON COLUMN leader_slot.started_at IS
    'When its last attempt began, by the database clock; null if none did.';
COMMENT ON COLUMN leader_slot.finished_at IS
    'When its last attempt ended, or it was recorded as missed, by the database clock; null while '
    'it is running or requested.';
COMMENT ON COLUMN leader_slot.error IS
    'Why it failed, was abandoned or was missed, or who requested the run; empty otherwise.';
