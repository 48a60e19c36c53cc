-- What a job's run is doing now, as its trainer last told; shown while it runs, meaningless afterwards.
alter table jobs add column progress jsonb;
