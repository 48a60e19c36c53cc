-- What other models earn on a job's validation rows.

alter table jobs add column baselines jsonb;           -- list of BaselineFigures, in the order they were measured
