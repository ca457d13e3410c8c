-- compatible-from: 1
-- Who may see what. Requests run as the role codeinfo_request with the user's id in codeinfo.user: row security then
-- shows the projects granted to them, and nothing at all without a user.
CREATE TABLE users(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subject text NOT NULL UNIQUE,               -- "<issuer> <sub>" of OpenID Connect, or "local <name>"
    name text NOT NULL,
    email text NOT NULL DEFAULT '',
    admin boolean NOT NULL DEFAULT false,
    disabled boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE groups(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE);
CREATE TABLE members(
    group_id bigint NOT NULL REFERENCES groups ON DELETE CASCADE,
    user_id bigint NOT NULL REFERENCES users ON DELETE CASCADE,
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
    revoked_at timestamptz
);
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
GRANT SELECT ON projects, trees, entries, files, attachments TO codeinfo_request;

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
ALTER TABLE projects ENABLE ROW LEVEL SECURITY;
ALTER TABLE trees ENABLE ROW LEVEL SECURITY;
ALTER TABLE entries ENABLE ROW LEVEL SECURITY;
ALTER TABLE files ENABLE ROW LEVEL SECURITY;
ALTER TABLE attachments ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON projects FOR SELECT TO codeinfo_request USING (id IN (SELECT visible_projects()));
CREATE POLICY visible ON trees FOR SELECT TO codeinfo_request USING (project IN (SELECT visible_projects()));
CREATE POLICY visible ON entries FOR SELECT TO codeinfo_request USING (tree IN (SELECT id FROM trees));
CREATE POLICY visible ON attachments FOR SELECT TO codeinfo_request USING (tree IN (SELECT id FROM trees));
CREATE POLICY visible ON files FOR SELECT TO codeinfo_request
    USING (EXISTS (SELECT 1 FROM entries e WHERE e.file = files.id));
