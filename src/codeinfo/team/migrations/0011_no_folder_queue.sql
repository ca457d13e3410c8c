-- compatible-from: 1
-- The queue of folders to index belongs to the machine that has them; a team's projects are the workers' jobs.
DROP TABLE runs;
