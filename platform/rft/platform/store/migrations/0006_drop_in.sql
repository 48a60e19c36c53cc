-- The rest of the drop-in job API: dataset reports, result files, usage, idempotent creation, checkpoint permissions.

alter table files add column report jsonb;              -- DatasetReport of a fine-tuning file; null: never read
create index files_expiring on files (expires_at) where expires_at is not null;

-- Content of files we write ourselves, in the transaction that makes them: so each is there exactly once.
create table file_contents (
    file_id  text primary key references files (id) on delete cascade,
    content  bytea not null
);

alter table jobs add column usage_metrics jsonb;        -- once the job is over

create table idempotency_keys (
    api_key_id      text not null references api_keys (id) on delete cascade,
    key             text not null,
    request_sha256  bytea not null,
    job_id          text not null references jobs (id) on delete cascade deferrable initially deferred,
    created_at      timestamptz not null default clock_timestamp(),
    primary key (api_key_id, key)
);
create index idempotency_keys_oldest on idempotency_keys (created_at);

create table checkpoint_permissions (
    id          text primary key,
    seq         bigint generated always as identity unique,
    model       text not null,                          -- the checkpoint's name as a model
    project_id  text not null,
    created_at  timestamptz not null default clock_timestamp(),
    unique (model, project_id)
);
create index checkpoint_permissions_newest on checkpoint_permissions (model, seq desc);
