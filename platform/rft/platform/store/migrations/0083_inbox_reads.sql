-- When a run's trainer looked into its inbox last. Not in `rollout_inboxes`: every call of a worker locks its row there
-- against changes, and the trainer would wait for them all.
create table inbox_reads (
    job_id   text primary key references rollout_inboxes (job_id) on delete cascade,
    read_at  timestamptz not null
);
