-- Sign-ins of browsers, each for one API key. Of every token only its SHA-256 is here.
create table sessions (
    sha256      bytea primary key,
    api_key_id  text not null references api_keys (id) on delete cascade,
    created_at  timestamptz not null default now(),
    expires_at  timestamptz not null
);

-- Links that sign a browser in, once.
create table sign_in_tokens (
    sha256      bytea primary key,
    api_key_id  text not null references api_keys (id) on delete cascade,
    expires_at  timestamptz not null
);

alter table api_keys add column last_used_at timestamptz;   -- to the minute
