-- Other graders over stored rollouts.

create table regrades (
    id           text primary key,
    job_id       text not null references jobs (id) on delete cascade,
    created_at   timestamptz not null default clock_timestamp(),
    finished_at  timestamptz,
    touched_at   timestamptz not null default clock_timestamp(),   -- sign of life of whoever works on it
    status       text not null check (status in ('queued', 'running', 'succeeded', 'failed')),
    grader       jsonb not null,                    -- as it was ordered, header values masked
    selection    jsonb not null,                    -- {split, steps, limit}
    total        integer,                           -- rollouts to be graded, once they are counted
    done         integer not null default 0,
    report       jsonb,
    error        jsonb                              -- {code, message, param}
);
create index regrades_newest on regrades (job_id, created_at desc, id desc);
create index regrades_unfinished on regrades (status) where status in ('queued', 'running');
