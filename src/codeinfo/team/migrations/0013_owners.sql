-- compatible-from: 13
-- A pushed work tree belongs to the user who pushed it; an operator's has no owner, and no user sees it. Names decided
-- that before, and people may choose theirs at a sign-in service. Only pushed trees have names of three parts.
ALTER TABLE trees ADD COLUMN owner bigint REFERENCES users ON DELETE CASCADE;
CREATE INDEX trees_by_owner ON trees(owner);
UPDATE trees t SET owner = u.id FROM users u WHERE t.name = 'work/' || u.name || '/' || split_part(t.name, '/', 3);
DROP POLICY visible ON trees;
CREATE POLICY visible ON trees FOR SELECT TO codeinfo_request USING (
    project IN (SELECT visible_projects()) AND (name NOT LIKE 'work/%' OR owner = caller())
);
DROP FUNCTION caller_name();
