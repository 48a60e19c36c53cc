-- The last calls of each endpoint that went wrong, with request and reply, cut and redacted by whoever made them.
-- A few by job and endpoint (`failed_call_repository.KEPT`); which ones count is the ledger's affair (`attempts`).

create table failed_calls (
    id        bigint generated always as identity primary key,
    job_id    text not null references jobs (id) on delete cascade,
    stage     text not null,
    endpoint  text not null,
    trace_id  text not null,
    call_id   text not null,
    attempt   integer not null,
    code      text,                                -- null: the model read a 4xx
    status    integer,
    at        timestamptz not null,
    message   text,
    request   text not null,
    reply     text
);
create index failed_calls_newest on failed_calls (job_id, stage, endpoint, id desc);
