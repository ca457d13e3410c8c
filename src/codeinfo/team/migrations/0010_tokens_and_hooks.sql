-- compatible-from: 1
-- A token that was made with another one ends with it.
ALTER TABLE tokens ADD COLUMN made_with bigint REFERENCES tokens ON DELETE CASCADE;
-- Until when the secret of a webhook before the last rotation is accepted too.
ALTER TABLE projects ADD COLUMN old_hook_until timestamptz NOT NULL DEFAULT '-infinity';
-- Trees that were dropped, so that machines that have a copy of one drop it too.
CREATE TABLE dropped_trees(
    tree bigint PRIMARY KEY,
    identity text NOT NULL,
    family text NOT NULL,
    name text NOT NULL,
    recipe text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
