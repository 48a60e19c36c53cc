-- A job's rollouts are filtered and sorted along one index that has all that is asked for, and found by the text of
-- their prompt and answer (`make bench-web`).

-- What a list shows of a conversation, and what is searched: the row's last question, and how the policy ended.
-- `worker/rollout_terms_repository.py` reads the same.
create function rollout_prompt(record jsonb) returns text language sql immutable parallel safe strict return
    left(jsonb_path_query_array(record, '$.messages[*] ? (@.role == "user").content') ->> -1, 2000);
create function rollout_answer(record jsonb) returns text language sql immutable parallel safe strict return
    case when record #>> '{messages,-1,role}' = 'assistant' then left(record #>> '{messages,-1,content}', 4000) end;

-- The tools that a job's rollouts called, each with a bit of its own in `tool_bits`. From the 63rd on they share the
-- last bit, so that whoever looks for one of those asks the records, too.
create table called_tools (
    job_id  text not null references jobs (id) on delete cascade,
    name    text not null,
    bit     integer not null check (bit between 0 and 62),
    primary key (job_id, name)
);
insert into called_tools
    select job_id, name, least(62, row_number() over (partition by job_id order by name) - 1)
    from (
        select distinct job_id, jsonb_object_keys(record -> 'tool_calls') as name from rollouts where tool_calls > 0
    ) as called;

alter table rollouts add column tool_bits bigint not null default 0;
update rollouts set tool_bits = called.bits
    from (
        select trace_id, bit_or(1::bigint << bit) as bits
        from rollouts
        cross join lateral jsonb_object_keys(record -> 'tool_calls') as names (name)
        join called_tools using (job_id, name)
        where tool_calls > 0
        group by trace_id
    ) as called
    where rollouts.trace_id = called.trace_id;

-- Read alone, never with the rows, while a filter is looked for: so it has every figure that one may ask about.
drop index rollouts_newest;
create index rollouts_newest on rollouts (job_id, split, step desc, row_index, group_index, attempt)
    include (reward, failure_code, stop_reason, tool_calls, completion_tokens, duration_s, tool_bits);
-- An index is read alone where its rows are known to be visible to everybody, which vacuuming finds out.
alter table rollouts set (autovacuum_vacuum_insert_scale_factor = 0.02);

-- The terms, runs of letters and digits, of rollouts that were stored together: one row where many come at once, so
-- that thousands a second cost little, and of a rollout or two where they come slowly. What is found is looked at again
-- in the rollouts themselves; rows of rollouts that are void by now find nothing.
create table rollout_terms (
    job_id  text not null,
    split   text not null,
    step    integer not null,
    rows    integer[] not null,                    -- whose rollouts these are, by their index in the dataset
    terms   tsvector not null                      -- and where they are: `<job_id>/<step / 32>`
);
create index rollout_terms_of_job on rollout_terms (job_id);
-- Without a list of what is not sorted in yet: it would be read again for each 32 steps that are looked through.
create index rollout_terms_of_text on rollout_terms using gin (terms) with (fastupdate = off);

insert into rollout_terms
    select job_id, split, step, array_agg(distinct row_index),
        array_to_tsvector(array_agg(distinct word) || (job_id || '/' || step / 32))
    from rollouts
    cross join lateral regexp_split_to_table(
        lower(coalesce(rollout_prompt(record), '') || ' ' || coalesce(rollout_answer(record), '')), '[^[:alnum:]]+'
    ) as terms (word)
    where length(word) between 1 and 64
    group by job_id, split, step, row_index, group_index / 16;

create or replace function delete_bulk_rows() returns trigger language plpgsql as $$
begin
    delete from rollouts where job_id = old.id;
    delete from attempts where job_id = old.id;
    delete from begun_rollouts where job_id = old.id;
    delete from rollout_terms where job_id = old.id;
    return null;
end $$;
