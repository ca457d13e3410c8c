-- compatible-from: 1
-- Sessions and signing in. Any server can read a session, since all of them sign with the key that is kept here.
CREATE UNIQUE INDEX users_by_name ON users(lower(name));
ALTER TABLE users ADD COLUMN sessions_after timestamptz NOT NULL DEFAULT '-infinity';  -- earlier sessions have ended
ALTER TABLE members ADD COLUMN claimed boolean NOT NULL DEFAULT false;  -- the sign-in service says so, not an admin
CREATE INDEX tokens_by_user ON tokens(user_id);
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

CREATE FUNCTION caller_name() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = codeinfo AS $$
    SELECT name FROM users WHERE id = nullif(current_setting('codeinfo.user', true), '')::bigint AND NOT disabled
$$;
-- What somebody has in a work tree is theirs until it is pushed.
DROP POLICY visible ON trees;
CREATE POLICY visible ON trees FOR SELECT TO codeinfo_request USING (
    project IN (SELECT visible_projects())
    AND (name NOT LIKE 'work/%' OR split_part(name, '/', 2) = (SELECT caller_name()))
);
CREATE FUNCTION writable_projects() RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = codeinfo AS $$
    SELECT g.project FROM grants g JOIN users u ON u.id = nullif(current_setting('codeinfo.user', true), '')::bigint
    WHERE g.level = 'write' AND NOT u.disabled
      AND (g.user_id = u.id OR g.group_id IN (SELECT group_id FROM members WHERE user_id = u.id))
$$;
