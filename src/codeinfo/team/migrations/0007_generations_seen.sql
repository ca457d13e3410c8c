-- compatible-from: 1
-- Requests learn with a tree which generation it has, so that a copy that reflects it need not ask again.
GRANT SELECT ON generations TO codeinfo_request;
ALTER TABLE generations ENABLE ROW LEVEL SECURITY;
CREATE POLICY visible ON generations FOR SELECT TO codeinfo_request USING (tree IN (SELECT id FROM trees));
