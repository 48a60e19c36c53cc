-- The control plane's tables. Valid on PostgreSQL 15 and later.

create table api_keys (
    id          text primary key,
    sha256      bytea not null,
    name        text not null,
    created_at  timestamptz not null default now(),
    revoked_at  timestamptz
);

create table files (
    id              text primary key,
    filename        text not null,
    purpose         text not null,
    bytes           bigint not null,
    status          text not null check (status in ('uploaded', 'processed', 'error')),
    status_details  text,
    storage_key     text not null,
    created_at      timestamptz not null default now(),
    expires_at      timestamptz
);
create index files_newest on files (created_at desc, id desc);

-- The job row is the truth; a queue message is only a bell.
create table jobs (
    id                    text primary key,
    status                text not null check (status in
                              ('validating_files', 'queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled')),
    created_at            timestamptz not null default now(),
    started_at            timestamptz,
    finished_at           timestamptz,
    model                 text not null,
    base_model_path       text not null,          -- resolved at creation
    training_file         text not null,
    validation_file       text,
    suffix                text,
    seed                  bigint not null,
    metadata              jsonb,
    method                jsonb not null,          -- as the customer wrote it, header values masked
    request               jsonb not null,          -- whole body, header values masked
    secrets               bytea,                   -- encrypted RunSecrets
    resolved              jsonb,                   -- ResolvedHyperparameters, once the files are validated
    error                 jsonb,                   -- {code, message, param}
    fine_tuned_model      text,
    trained_tokens        bigint,
    result_files          text[] not null default '{}',
    current_step          integer,
    total_steps           integer,
    best_step             integer,
    is_cancel_requested   boolean not null default false,
    -- lease: who runs it. Every write of a runner carries its token.
    lease_owner           text,
    lease_until           timestamptz,
    lease_token           bigint not null default 0,
    launches              integer not null default 0,   -- trainer processes started
    launches_without_progress integer not null default 0,
    last_event_seq        bigint not null default 0,
    rung_at               timestamptz              -- when the queue's bell was last rung
);
create index jobs_newest on jobs (created_at desc, id desc);
create index jobs_unfinished on jobs (status) where status in ('validating_files', 'queued', 'running');

create table job_events (
    id          text primary key,
    seq         bigint generated always as identity unique,
    job_id      text not null references jobs (id) on delete cascade,
    created_at  timestamptz not null default now(),
    level       text not null check (level in ('info', 'warn', 'error')),
    type        text not null check (type in ('message', 'metrics')),
    message     text not null,
    data        jsonb,
    step        integer                            -- set on metrics events
);
create index job_events_newest on job_events (job_id, seq desc);
create unique index job_events_one_per_step on job_events (job_id, step) where type = 'metrics';

create table steps (
    job_id      text not null references jobs (id) on delete cascade,
    step        integer not null,
    created_at  timestamptz not null default now(),
    record      jsonb not null,                    -- StepDone
    primary key (job_id, step)
);

create table checkpoints (
    id          text primary key,
    job_id      text not null references jobs (id) on delete cascade,
    step        integer not null,
    created_at  timestamptz not null default now(),
    path        text not null,                     -- relative to the run directory
    metrics     jsonb not null,
    is_kept     boolean not null default true,
    unique (job_id, step)
);

create table rollouts (
    trace_id           text primary key,
    job_id             text not null references jobs (id) on delete cascade,
    split              text not null check (split in ('train', 'valid')),
    step               integer not null,
    epoch              integer not null,
    row_index          integer not null,
    group_index        integer not null,
    attempt            integer not null,
    policy_version     integer not null,
    reward             double precision,           -- null: unscorable
    failure_code       text,
    failure_stage      text,
    stop_reason        text,
    tool_calls         integer not null,
    completion_tokens  integer not null,
    duration_s         double precision not null,
    created_at         timestamptz not null default now(),
    record             jsonb not null              -- RolloutDone
);
create index rollouts_by_step on rollouts (job_id, step, split, row_index, group_index, attempt);
