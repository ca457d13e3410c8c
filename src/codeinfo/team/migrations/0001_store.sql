-- compatible-from: 1
-- What is indexed. A file is a path with a content as one recipe (chunk settings, model, tokens) parses and embeds it; it
-- is stored once a family, which a repository and its forks are. A tree is a branch, tag, commit or work tree: the files
-- that its entries name. Entries remember the generation that changed them, so that a server fetches differences only;
-- one without a file says that its path was removed.
CREATE TABLE projects(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    identity text NOT NULL UNIQUE,              -- the git remote, normalised: github.com/owner/name
    family text NOT NULL,                       -- the identity of the repository it was forked from, or its own
    clone_url text NOT NULL DEFAULT '',
    default_ref text NOT NULL DEFAULT '',
    visibility text NOT NULL DEFAULT 'private' CHECK (visibility IN ('private', 'internal')),
    created_at timestamptz NOT NULL DEFAULT now()
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
    UNIQUE (family, recipe, path, sha256, brought_back)
);
ALTER TABLE files ALTER COLUMN payload SET STORAGE EXTERNAL;  -- it is compressed already
CREATE INDEX files_by_content ON files(family, recipe, sha256);
CREATE TABLE trees(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project bigint NOT NULL REFERENCES projects ON DELETE CASCADE,
    name text NOT NULL,                         -- refs/heads/main, refs/tags/v1, commit/<sha>, work/<user>/<folder>
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
