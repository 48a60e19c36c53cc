-- Processes that answer chat, one per base model and host, and the tokens they read and wrote for each key.

create table serving_processes (
    id             text primary key,                -- host and base model
    status         text not null check (status in ('running', 'stopped')),
    lease_owner    text,
    lease_until    timestamptz,
    lease_token    bigint not null default 0
);

create table served_tokens (
    api_key_id         text not null,
    model              text not null,
    day                date not null,               -- UTC
    requests           bigint not null default 0,
    prompt_tokens      bigint not null default 0,
    remembered_tokens  bigint not null default 0,   -- of the prompts: taken as they were sampled
    completion_tokens  bigint not null default 0,
    rendered_again     bigint not null default 0,   -- requests whose earlier turns had to be encoded from their text
    primary key (api_key_id, model, day)
);
