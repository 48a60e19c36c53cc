-- Signing secrets, and the registry of tools and graders.

create table signing_secrets (
    id          text primary key,
    sealed      bytea not null,                    -- the encrypted secret
    created_at  timestamptz not null default clock_timestamp(),
    retired_at  timestamptz                        -- null: calls are signed with it
);
create index signing_secrets_newest on signing_secrets (created_at desc, id desc);

create table registrations (
    id          text primary key,
    kind        text not null check (kind in ('tool', 'grader')),
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp(),
    body        jsonb not null,                    -- as it was registered, header values masked
    sealed      bytea not null,                    -- the encrypted body, header values and all
    last_test   jsonb                              -- LastTest
);
create index registrations_newest on registrations (kind, created_at desc, id desc);

-- Which jobs call a registered tool or grader: how its health is found in the ledger.
create table registration_uses (
    registration_id  text not null,                -- kept when the registration is deleted: history
    job_id           text not null references jobs (id) on delete cascade,
    endpoint         text not null,                -- its name in the job's attempts
    primary key (registration_id, job_id)
);
create index registration_uses_by_job on registration_uses (job_id);
