-- A job may wait: for an endpoint that fails (held, its worker stays with it) or for its customer (paused, no worker).

alter table jobs add column hold jsonb;                -- {endpoint, stage, reason, since, step}
alter table jobs add column is_pause_requested boolean not null default false;
alter table jobs add constraint jobs_held_are_paused check (hold is null or status = 'paused');
alter table jobs add constraint jobs_paused_have_no_owner
    check (status <> 'paused' or (hold is null) = (lease_owner is null));

drop index jobs_unfinished;
create index jobs_unfinished on jobs (status) where status in ('validating_files', 'queued', 'running', 'paused');

-- The failure ledger: every attempt of every call to a customer endpoint.
create table attempts (
    id              bigint generated always as identity primary key,   -- in the order they ended
    job_id          text not null references jobs (id) on delete cascade,
    step            integer not null,
    trace_id        text not null,
    stage           text not null,
    endpoint        text not null,
    call_id         text not null,
    attempt         integer not null,
    code            text,                              -- null: a usable reply
    status          integer,
    latency_ms      real not null,
    queued_ms       real not null,
    sent_bytes      bigint not null,
    received_bytes  bigint not null,
    at              timestamptz not null
);
create index attempts_of_rollout on attempts (job_id, trace_id, id);
create index attempts_by_step on attempts (job_id, step);
