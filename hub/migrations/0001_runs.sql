-- The runs, whole, and what is searched of them. SQLite and PostgreSQL run the same statements; in PostgreSQL, `blob` is a domain.

-- How many runs were added and removed, so that each server knows what the others did.
CREATE TABLE counters (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counters (name, value) VALUES ('added', 0), ('removed', 0);

CREATE TABLE runs (
    -- In the order in which they came.
    sequence BIGINT PRIMARY KEY,
    -- The digest of the document.
    id TEXT NOT NULL UNIQUE,
    received_unix_seconds BIGINT NOT NULL,
    -- When it was measured.
    day TEXT NOT NULL,
    machine TEXT NOT NULL,
    -- Why it does not count, with commas between; empty if it does.
    marks TEXT NOT NULL,
    -- The digest of what its sender can withdraw it by.
    secret TEXT NOT NULL,
    -- The document, compressed by gzip.
    document BLOB NOT NULL
);
CREATE INDEX runs_by_machine ON runs (machine);

CREATE TABLE places (
    -- The digest of the other columns.
    id BIGINT PRIMARY KEY,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    file_system TEXT NOT NULL,
    kernel TEXT NOT NULL,
    operation TEXT NOT NULL,
    cache TEXT NOT NULL,
    target TEXT NOT NULL,
    durability TEXT NOT NULL,
    work TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    revision TEXT NOT NULL
);

CREATE TABLE figures (
    run BIGINT NOT NULL REFERENCES runs (sequence) ON DELETE CASCADE,
    contest BIGINT NOT NULL,
    place BIGINT NOT NULL REFERENCES places (id),
    method TEXT NOT NULL,
    -- The time over that of the best.
    ratio DOUBLE PRECISION NOT NULL,
    is_best BIGINT NOT NULL,
    -- Of one file.
    seconds DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, contest, method)
);

-- The digests of the samples of each contest: samples that another run has, too, are copies.
CREATE TABLE samples (
    digest TEXT PRIMARY KEY,
    run BIGINT NOT NULL REFERENCES runs (sequence) ON DELETE CASCADE
);
CREATE INDEX samples_by_run ON samples (run);

-- Machines whose runs are refused.
CREATE TABLE bans (machine TEXT PRIMARY KEY);
