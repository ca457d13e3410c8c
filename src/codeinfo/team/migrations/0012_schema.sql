-- compatible-from: 12
-- with the tables of procrastinate
-- What is indexed. A file is a path with a content as one recipe (chunk settings, model, tokens) parses and embeds it; it
-- is stored once a family, which a repository and its forks are. A tree is a branch, tag, commit or work tree: the files
-- that its entries name. Entries remember the generation that changed them, so that a server fetches differences only;
-- one without a file says that its path was removed.
CREATE TABLE projects(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity text NOT NULL UNIQUE,              -- the git remote, normalised: github.com/owner/name
    family text NOT NULL DEFAULT gen_random_uuid()::text,  -- the same for a repository and its forks
    clone_url text NOT NULL DEFAULT '',
    default_ref text NOT NULL DEFAULT '',
    visibility text NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'internal')),
    created_at timestamptz NOT NULL DEFAULT now(),
    follow text[] NOT NULL DEFAULT '{}',         -- refs beside the default branch, as patterns
    hook_version integer NOT NULL DEFAULT 1,     -- of the secret of its webhook
    old_hook_until timestamptz NOT NULL DEFAULT '-infinity'  -- until when the one before is accepted too
);
CREATE TABLE files(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    family text NOT NULL,
    recipe text NOT NULL,
    path text NOT NULL,
    sha256 text NOT NULL,
    brought_back boolean NOT NULL,              -- its content alone would leave it out
    skip text NOT NULL,
    chunk_count integer NOT NULL,
    payload bytea NOT NULL,
    checksum bytea NOT NULL,                    -- SHA-256 of the payload
    created_at timestamptz NOT NULL DEFAULT now(),
    released_at timestamptz,                   -- since when no tree has it; NULL before it was in one
    UNIQUE (family, recipe, path, sha256, brought_back)
);
ALTER TABLE files ALTER COLUMN payload SET STORAGE EXTERNAL;  -- it is compressed already
CREATE INDEX files_by_content ON files(family, recipe, sha256);
CREATE INDEX files_released ON files(family, recipe) WHERE released_at IS NOT NULL;
CREATE TABLE trees(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project bigint NOT NULL REFERENCES projects ON DELETE CASCADE,
    name text NOT NULL,                         -- refs/heads/main, refs/tags/v1, commit/<sha>, work/<user>/…
    recipe text NOT NULL,
    revision text NOT NULL DEFAULT '',          -- the commit that it reflects
    generation bigint NOT NULL DEFAULT 0,
    complete boolean NOT NULL DEFAULT false,
    meta jsonb NOT NULL DEFAULT '{}',
    indexed_at timestamptz,
    used_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (project, name, recipe)
);
CREATE TABLE entries(
    tree bigint NOT NULL REFERENCES trees ON DELETE CASCADE,
    path text NOT NULL,
    file bigint REFERENCES files,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    generation bigint NOT NULL,
    PRIMARY KEY (tree, path)
);
CREATE INDEX entries_by_generation ON entries(tree, generation);
CREATE INDEX entries_by_file ON entries(file);
CREATE TABLE attachments(                       -- what belongs to a tree as a whole, such as its commit messages
    tree bigint NOT NULL REFERENCES trees ON DELETE CASCADE,
    name text NOT NULL,
    data bytea NOT NULL,
    checksum bytea NOT NULL,
    PRIMARY KEY (tree, name)
);
-- The last generations of a tree by a random name: a server that has one of them fetches what changed since; one that
-- has another, as after a failover that lost commits or a restored backup, compares everything.
CREATE TABLE generations(
    tree bigint NOT NULL REFERENCES trees ON DELETE CASCADE,
    generation bigint NOT NULL,
    token text NOT NULL,
    PRIMARY KEY (tree, generation)
);
-- Trees that were dropped, so that machines that have a copy of one drop it too.
CREATE TABLE dropped_trees(
    tree bigint PRIMARY KEY,
    identity text NOT NULL,
    family text NOT NULL,
    name text NOT NULL,
    recipe text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- Who may see what. Requests run as the role codeinfo_request with the user's id in codeinfo.user: row security then
-- shows the projects granted to them, and nothing at all without a user.
CREATE TABLE users(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject text NOT NULL UNIQUE,               -- "<issuer> <sub>" of OpenID Connect, or "local <name>"
    name text NOT NULL,
    email text NOT NULL DEFAULT '',
    admin boolean NOT NULL DEFAULT false,
    disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    sessions_after timestamptz NOT NULL DEFAULT '-infinity'  -- earlier sessions have ended
);
CREATE UNIQUE INDEX users_by_name ON users(lower(name));
CREATE TABLE groups(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE members(
    group_id bigint NOT NULL REFERENCES groups ON DELETE CASCADE,
    user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
    claimed boolean NOT NULL DEFAULT false,     -- the sign-in service says so, not an admin
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX members_by_user ON members(user_id);
CREATE TABLE grants(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project bigint NOT NULL REFERENCES projects ON DELETE CASCADE,
    user_id bigint REFERENCES users ON DELETE CASCADE,
    group_id bigint REFERENCES groups ON DELETE CASCADE,
    level text NOT NULL CHECK (level IN ('read', 'write')),
    CHECK (num_nonnulls(user_id, group_id) = 1),
    UNIQUE NULLS NOT DISTINCT (project, user_id, group_id)
);
CREATE INDEX grants_by_user ON grants(user_id);
CREATE INDEX grants_by_group ON grants(group_id);
CREATE TABLE tokens(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
    name text NOT NULL,
    hash bytea NOT NULL UNIQUE,                 -- SHA-256 of the token, which is shown once and stored nowhere
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    revoked_at timestamptz,
    made_with bigint REFERENCES tokens ON DELETE CASCADE  -- the token with which it was made: it ends with that
);
CREATE INDEX tokens_by_user ON tokens(user_id);
CREATE TABLE audit(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    user_id bigint,
    action text NOT NULL,
    project bigint,
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_by_time ON audit(at);

DO $$ BEGIN
    CREATE ROLE codeinfo_request NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- another database of this server made it
END $$;
DO $$ BEGIN EXECUTE format('GRANT codeinfo_request TO %I', current_user); END $$;
GRANT USAGE ON SCHEMA codeinfo TO codeinfo_request;
GRANT SELECT ON projects, trees, entries, files, attachments, generations TO codeinfo_request;

-- Defined by the owner of the tables, who may read grants; a request cannot.
CREATE FUNCTION visible_projects() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = codeinfo AS $$
    WITH caller AS (
        SELECT id FROM users WHERE id = nullif(current_setting('codeinfo.user', true), '')::bigint AND NOT disabled
    )
    SELECT id FROM projects WHERE visibility = 'internal' AND EXISTS (SELECT 1 FROM caller)
    UNION
    SELECT g.project FROM grants g JOIN caller c ON g.user_id = c.id
    UNION
    SELECT g.project FROM grants g JOIN members m ON m.group_id = g.group_id JOIN caller c ON m.user_id = c.id
$$;
CREATE FUNCTION caller_name() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = codeinfo AS $$
    SELECT name FROM users WHERE id = nullif(current_setting('codeinfo.user', true), '')::bigint AND NOT disabled
$$;
CREATE FUNCTION writable_projects() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = codeinfo AS $$
    SELECT g.project FROM grants g JOIN users u ON u.id = nullif(current_setting('codeinfo.user', true), '')::bigint
    WHERE g.level = 'write' AND NOT u.disabled
      AND (g.user_id = u.id OR g.group_id IN (SELECT group_id FROM members WHERE user_id = u.id))
$$;
ALTER TABLE projects ENABLE ROW LEVEL SECURITY;
ALTER TABLE trees ENABLE ROW LEVEL SECURITY;
ALTER TABLE entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE files ENABLE ROW LEVEL SECURITY;
ALTER TABLE attachments ENABLE ROW LEVEL SECURITY;
ALTER TABLE generations ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON projects FOR SELECT TO codeinfo_request USING (id IN (SELECT visible_projects()));
-- What somebody has in a work tree is theirs until it is pushed.
CREATE POLICY visible ON trees FOR SELECT TO codeinfo_request USING (
    project IN (SELECT visible_projects())
    AND (name NOT LIKE 'work/%' OR split_part(name, '/', 2) = (SELECT caller_name()))
);
CREATE POLICY visible ON entries FOR SELECT TO codeinfo_request USING (tree IN (SELECT id FROM trees));
CREATE POLICY visible ON attachments FOR SELECT TO codeinfo_request USING (tree IN (SELECT id FROM trees));
CREATE POLICY visible ON generations FOR SELECT TO codeinfo_request USING (tree IN (SELECT id FROM trees));
CREATE POLICY visible ON files FOR SELECT TO codeinfo_request
    USING (EXISTS (SELECT 1 FROM entries e WHERE e.file = files.id));

-- Sessions and signing in. Any server can read a session, since all of them sign with the key that is kept here.
CREATE TABLE secrets(name text PRIMARY KEY, value bytea NOT NULL);
INSERT INTO secrets SELECT 'sessions', sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea);
CREATE TABLE sign_ins(                          -- begun and not finished yet; each can be finished once
    state bytea PRIMARY KEY,                    -- SHA-256, as of the browser's cookie
    browser bytea NOT NULL,
    nonce text NOT NULL,
    verifier text NOT NULL,
    back text NOT NULL,
    expires_at timestamptz NOT NULL
);

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
INSERT INTO secrets SELECT 'webhooks', sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea);
CREATE TABLE deliveries(                        -- what webhooks have said, so that nobody can say it again
    project bigint NOT NULL REFERENCES projects ON DELETE CASCADE,
    delivery text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project, delivery)
);
CREATE INDEX deliveries_by_time ON deliveries(at);
-- Why a job failed the last time.
CREATE TABLE job_problems(
    job bigint PRIMARY KEY REFERENCES procrastinate_jobs ON DELETE CASCADE,
    problem text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

-- What belongs to a user: conversations and savings. The columns are those of the SQLite files, so
-- that the statements are the same; a row has its owner by default, none for the operator of a command line (-1).
CREATE FUNCTION caller() RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT nullif(current_setting('codeinfo.user', true), '')::bigint
$$;
CREATE TABLE conversations(
    id text COLLATE "C" PRIMARY KEY,
    user_id bigint DEFAULT nullif(caller(), -1) REFERENCES users ON DELETE CASCADE,
    title text NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    source text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    last_message_at text COLLATE "C" NOT NULL,
    agent_name text NOT NULL,
    archived_at text COLLATE "C",
    paths text NOT NULL
);
CREATE INDEX conversations_by_time ON conversations(user_id, last_message_at, id);
CREATE TABLE turns(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id text COLLATE "C" NOT NULL REFERENCES conversations ON DELETE CASCADE,
    role text NOT NULL,
    content text NOT NULL,
    status text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    tool_calls text,
    citations text,
    usage text,
    took_ms double precision,
    error text NOT NULL,
    rounds text,
    notes text
);
CREATE INDEX turns_by_conversation ON turns(conversation_id, id);
CREATE TABLE savings(
    user_id bigint DEFAULT nullif(caller(), -1) REFERENCES users ON DELETE CASCADE,
    day text COLLATE "C" NOT NULL,
    tool text COLLATE "C" NOT NULL,
    calls bigint NOT NULL,
    returned bigint NOT NULL,
    files bigint NOT NULL,
    UNIQUE NULLS NOT DISTINCT (user_id, day, tool)
);
-- Memories of a project that were told to a server; those of a repository's own file stay there.
CREATE TABLE memories(
    project bigint NOT NULL REFERENCES projects ON DELETE CASCADE,
    id text COLLATE "C" NOT NULL,
    record jsonb NOT NULL,
    user_id bigint DEFAULT nullif(caller(), -1) REFERENCES users ON DELETE SET NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project, id)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON conversations, turns, savings, memories TO codeinfo_request;
ALTER TABLE conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE savings ENABLE ROW LEVEL SECURITY;
ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON conversations TO codeinfo_request USING (caller() <> 0 AND coalesce(user_id, -1) = caller());
CREATE POLICY own ON turns TO codeinfo_request USING (conversation_id IN (SELECT id FROM conversations));
CREATE POLICY own ON savings TO codeinfo_request USING (caller() <> 0 AND coalesce(user_id, -1) = caller());
CREATE POLICY visible ON memories FOR SELECT TO codeinfo_request USING (project IN (SELECT visible_projects()));
CREATE POLICY writable ON memories TO codeinfo_request USING (project IN (SELECT writable_projects()));

-- Answers while they are written, so that any server can show what another one writes. `seen_at` is when the server that
-- writes it was last heard of.
CREATE TABLE answers(
    id text COLLATE "C" PRIMARY KEY,
    user_id bigint DEFAULT nullif(caller(), -1) REFERENCES users ON DELETE CASCADE,
    question text NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    agent text NOT NULL,
    result text,                                -- the answers, once it is finished
    stop boolean NOT NULL DEFAULT false,        -- somebody wants it to end
    seen_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX answers_by_conversation ON answers(conversation);
CREATE INDEX answers_by_time ON answers(seen_at);
CREATE TABLE answer_events(
    answer text COLLATE "C" NOT NULL REFERENCES answers ON DELETE CASCADE,
    number integer NOT NULL,
    kind text NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (answer, number)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON answers, answer_events TO codeinfo_request;
ALTER TABLE answers ENABLE ROW LEVEL SECURITY;
ALTER TABLE answer_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON answers TO codeinfo_request USING (caller() <> 0 AND coalesce(user_id, -1) = caller());
CREATE POLICY own ON answer_events TO codeinfo_request USING (answer IN (SELECT id FROM answers));
