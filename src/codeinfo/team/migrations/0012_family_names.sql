-- compatible-from: 1
-- A family was called after the repository that was forked, which those who see a fork may not see.
ALTER TABLE projects ALTER COLUMN family SET DEFAULT gen_random_uuid()::text;
WITH named AS MATERIALIZED (SELECT family, gen_random_uuid()::text AS name FROM projects GROUP BY family),
     of_projects AS (UPDATE projects p SET family = n.name FROM named n WHERE n.family = p.family),
     of_files AS (UPDATE files f SET family = n.name FROM named n WHERE n.family = f.family)
UPDATE dropped_trees d SET family = n.name FROM named n WHERE n.family = d.family;
