-- A key of a request that is done once stands for a job or for an eval run.

alter table idempotency_keys
    alter column job_id drop not null,
    add column eval_run_id text references eval_runs (id) on delete cascade deferrable initially deferred,
    add constraint idempotency_keys_stand_for_one check (num_nonnulls(job_id, eval_run_id) = 1);
