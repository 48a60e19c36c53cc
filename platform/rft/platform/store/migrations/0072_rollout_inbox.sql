-- Rollouts that a job's trainer gives out to workers, and what they hand over: one inbox per job, opened anew by each
-- launch. Nothing here outlives the launch; what counts of it is in the run's event log.
create table rollout_inboxes (
    job_id         text primary key references jobs (id) on delete cascade,
    lease_token    bigint not null,                 -- of the worker that launched the trainer
    launch         integer not null default 1,
    secret_sha256  bytea not null,
    run            text                             -- what workers need to know; null: not told yet
);

create table rollout_shards (
    job_id         text not null references rollout_inboxes (job_id) on delete cascade,
    id             text not null,
    position       bigint not null generated always as identity,
    body           text not null,
    worker         text,                            -- null: nobody has taken it
    lease_until    timestamptz,
    is_lost        boolean not null default false,  -- its worker fell silent; nothing more of it is taken in
    primary key (job_id, id)
);

create table inbox_rollouts (
    job_id         text not null references rollout_inboxes (job_id) on delete cascade,
    trace_id       text not null,
    position       bigint not null generated always as identity,
    body           text not null,
    primary key (job_id, trace_id)
);
