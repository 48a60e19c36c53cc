-- Evals: which data is graded how.

create table evals (
    id                  text primary key,
    created_at          timestamptz not null default clock_timestamp(),
    updated_at          timestamptz not null default clock_timestamp(),
    name                text not null,
    metadata            jsonb,
    data_source_config  jsonb not null,             -- as it is shown
    testing_criteria    jsonb not null,             -- as they are shown, header values redacted
    sealed              bytea not null              -- the criteria with everything in them, encrypted
);
create index evals_by_age on evals (created_at, id);
create index evals_by_change on evals (updated_at, id);
