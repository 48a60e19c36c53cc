-- Runs of evals and what became of each item. A run that was interrupted goes on with the items it has not finished.

create table eval_runs (
    id                   text primary key,
    eval_id              text not null references evals (id) on delete cascade,
    created_at           timestamptz not null default clock_timestamp(),
    started_at           timestamptz,
    finished_at          timestamptz,
    status               text not null check (status in ('queued', 'in_progress', 'completed', 'canceled', 'failed')),
    is_cancel_requested  boolean not null default false,
    name                 text not null,
    metadata             jsonb,
    model                text not null,              -- '' where nothing is sampled
    data_source          jsonb not null,             -- as it is shown, header values redacted
    file_id              text,                       -- of its items, where they are in a file
    sealed               bytea,                      -- its tools with everything in them, encrypted; forgotten once over
    samples_per_row      integer not null,
    seed                 bigint not null,
    rows                 integer,                    -- items, once they are counted
    figures              jsonb,                      -- once it is over
    error                jsonb,                      -- {code, message, param}
    idle_takes           integer not null default 0, -- workers that took it and finished no item, one after the other
    lease_owner          text,
    lease_until          timestamptz,
    lease_token          bigint not null default 0,
    enqueued_at          timestamptz not null default clock_timestamp()
);
create index eval_runs_by_age on eval_runs (eval_id, created_at, id);
create index eval_runs_unfinished on eval_runs (created_at, id) where status in ('queued', 'in_progress');
create index eval_runs_by_file on eval_runs (file_id) where status in ('queued', 'in_progress');

create table eval_output_items (
    id                 text primary key,
    run_id             text not null references eval_runs (id) on delete cascade,
    row_index          integer not null,
    sample_index       integer not null,
    created_at         timestamptz not null default clock_timestamp(),
    status             text not null check (status in ('pass', 'fail', 'error')),
    item               jsonb not null,
    sample             jsonb not null,              -- as it is shown
    results            jsonb not null,              -- as they are shown, in the order of the criteria
    scores             double precision[] not null, -- in the same order; null: no score
    passes             boolean[] not null,          -- in the same order; null: no verdict
    failure_code       text,                        -- of an error
    usage              jsonb not null,              -- tokens and calls by model
    prompt_tokens      bigint not null,
    completion_tokens  bigint not null,
    tool_calls         integer not null,
    latency_s          double precision,            -- until the answer was there; null where nothing was sampled
    unique (run_id, row_index, sample_index)
);
