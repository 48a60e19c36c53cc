-- Rehearsals: a training step's burst at a customer's endpoints, without a model.

create table rehearsals (
    id             text primary key,
    status         text not null check (status in ('queued', 'running', 'completed', 'failed')),
    created_at     timestamptz not null default clock_timestamp(),
    started_at     timestamptz,
    finished_at    timestamptz,
    model          text not null,
    training_file  text not null,
    method         jsonb not null,                  -- as the customer wrote it, header values masked
    secrets        bytea,                           -- encrypted RunSecrets; forgotten once it is over
    seed           bigint not null,
    plan           jsonb not null,                  -- RehearsalPlan
    report         jsonb,                           -- RehearsalReport
    error          jsonb,                           -- {code, message, param}
    lease_owner    text,
    lease_until    timestamptz,
    rung_at        timestamptz not null default clock_timestamp()
);
create index rehearsals_newest on rehearsals (created_at desc, id desc);
create index rehearsals_unfinished on rehearsals (created_at, id) where status in ('queued', 'running');
