-- compatible-from: 1
-- with the tables of procrastinate
-- Indexing a branch or tag: a run lists what a commit changes in its tree, batches of what nobody has parsed yet are jobs
-- for any worker, and the last of them leads to the one transaction that changes the tree.
CREATE TABLE index_runs(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tree bigint NOT NULL REFERENCES trees ON DELETE CASCADE,
    revision text NOT NULL,
    state text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'done', 'failed')),
    again boolean NOT NULL DEFAULT false,       -- another commit was pushed meanwhile
    files integer NOT NULL,                     -- that it adds, changes or removes
    lacking integer NOT NULL,                   -- that the mirror could not read
    problem text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz
);
CREATE UNIQUE INDEX index_runs_active ON index_runs(tree) WHERE state = 'active';
CREATE TABLE index_batches(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run bigint NOT NULL REFERENCES index_runs ON DELETE CASCADE,
    files integer NOT NULL,
    starts integer NOT NULL DEFAULT 0,          -- without an end: each is a worker that died
    done boolean NOT NULL DEFAULT false,
    divided boolean NOT NULL DEFAULT false      -- into others
);
CREATE INDEX index_batches_by_run ON index_batches(run);
CREATE TABLE index_files(
    run bigint NOT NULL REFERENCES index_runs ON DELETE CASCADE,
    path text NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    sha256 text,                                -- NULL: the commit does not have it any more
    brings_back boolean NOT NULL,               -- an ignore file of the commit wants it whatever its content
    batch bigint REFERENCES index_batches ON DELETE SET NULL,
    PRIMARY KEY (run, path)
);
CREATE INDEX index_files_by_batch ON index_files(batch);
ALTER TABLE projects ADD COLUMN follow text[] NOT NULL DEFAULT '{}';  -- refs beside the default branch, as patterns
-- The secret of a project's webhook is derived from this key, so that none is stored; a new version ends the old one.
ALTER TABLE projects ADD COLUMN hook_version integer NOT NULL DEFAULT 1;
INSERT INTO secrets SELECT 'webhooks', sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea);
CREATE TABLE deliveries(                        -- what webhooks have said, so that nobody can say it again
    project bigint NOT NULL REFERENCES projects ON DELETE CASCADE,
    delivery text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project, delivery)
);
CREATE INDEX deliveries_by_time ON deliveries(at);
