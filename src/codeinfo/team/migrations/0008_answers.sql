-- compatible-from: 1
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
