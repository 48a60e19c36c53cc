-- Conversations that customers' servers may know and that have no row in `rollouts`: those under way, and those that
-- count no more, because they were abandoned or because their step was done again. Found by id alone; no list, figure
-- or curve reads them.
create table begun_rollouts (
    job_id          text not null,
    trace_id        text not null,
    split           text not null check (split in ('train', 'valid')),
    step            integer not null,
    epoch           integer not null,
    row_index       integer not null,
    group_index     integer not null,
    attempt         integer not null,
    policy_version  integer not null,
    created_at      timestamptz not null,
    is_void         boolean not null default false,
    record          jsonb,                         -- RolloutDone; null: its end was not told
    primary key (job_id, trace_id)
);

create or replace function delete_bulk_rows() returns trigger language plpgsql as $$
begin
    delete from rollouts where job_id = old.id;
    delete from attempts where job_id = old.id;
    delete from begun_rollouts where job_id = old.id;
    return null;
end $$;
