-- OpenAI-compatible endpoints whose models are measured beside ours.

create table providers (
    id          text primary key,
    name        text not null unique,              -- models are named by it: NAME/MODEL
    created_at  timestamptz not null default clock_timestamp(),
    updated_at  timestamptz not null default clock_timestamp(),
    body        jsonb not null,                    -- as it was registered, secrets redacted
    sealed      bytea not null                     -- the encrypted body, key and header values and all
);
create index providers_newest on providers (created_at desc, id desc);
