-- compatible-from: 1
-- Why a job failed the last time.
CREATE TABLE job_problems(
    job bigint PRIMARY KEY REFERENCES procrastinate_jobs ON DELETE CASCADE,
    problem text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
