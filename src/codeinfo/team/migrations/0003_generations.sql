-- compatible-from: 1
-- The last generations of a tree by a random name: a server that has one of them fetches what changed since; one that
-- has another, as after a failover that lost commits or a restored backup, compares everything.
CREATE TABLE generations(
    tree bigint NOT NULL REFERENCES trees ON DELETE CASCADE,
    generation bigint NOT NULL,
    token text NOT NULL,
    PRIMARY KEY (tree, generation)
);
-- Since when no tree has a file; one that was stored and has not been in a tree yet has none.
ALTER TABLE files ADD COLUMN released_at timestamptz;
CREATE INDEX files_released ON files(family, recipe) WHERE released_at IS NOT NULL;
