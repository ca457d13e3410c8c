-- compatible-from: 1
-- What belongs to a user: conversations, savings, the queue of index runs. The columns are those of the SQLite files, so
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
CREATE TABLE runs(
    place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    user_id bigint DEFAULT nullif(caller(), -1) REFERENCES users ON DELETE CASCADE,
    root text NOT NULL,
    complete integer NOT NULL,
    state text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    started_at text COLLATE "C" NOT NULL DEFAULT '',
    finished_at text COLLATE "C" NOT NULL DEFAULT '',
    outcome text NOT NULL DEFAULT '',
    error text NOT NULL DEFAULT '',
    error_code text NOT NULL DEFAULT ''
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

GRANT SELECT, INSERT, UPDATE, DELETE ON conversations, turns, savings, runs, memories TO codeinfo_request;
ALTER TABLE conversations ENABLE ROW LEVEL SECURITY;
ALTER TABLE turns ENABLE ROW LEVEL SECURITY;
ALTER TABLE savings ENABLE ROW LEVEL SECURITY;
ALTER TABLE runs ENABLE ROW LEVEL SECURITY;
ALTER TABLE memories ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON conversations TO codeinfo_request USING (caller() <> 0 AND coalesce(user_id, -1) = caller());
CREATE POLICY own ON turns TO codeinfo_request USING (conversation_id IN (SELECT id FROM conversations));
CREATE POLICY own ON savings TO codeinfo_request USING (caller() <> 0 AND coalesce(user_id, -1) = caller());
CREATE POLICY own ON runs TO codeinfo_request USING (caller() <> 0 AND coalesce(user_id, -1) = caller());
CREATE POLICY visible ON memories FOR SELECT TO codeinfo_request USING (project IN (SELECT visible_projects()));
CREATE POLICY writable ON memories TO codeinfo_request USING (project IN (SELECT writable_projects()));
