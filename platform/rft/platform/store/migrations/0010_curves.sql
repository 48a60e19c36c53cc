-- A job's page is made from what was worked out when its steps were stored, however many they are (`make bench-api`).

-- What of a step's record is drawn.
create function drawn_of_split(stats jsonb) returns jsonb language sql immutable parallel safe return
    case when jsonb_typeof(stats) = 'object' then jsonb_build_object(
        'rollouts', stats->'rollouts',
        'excluded', stats->'excluded',
        'failures_by_code', stats->'failures_by_code',
        'reward_mean', stats->'reward_mean',
        'reward_mean_if_failures_were_zero', stats->'reward_mean_if_failures_were_zero',
        'grader_scores_mean', stats->'grader_scores_mean',
        'completion_tokens_mean', stats->'completion_tokens_mean',
        'tool_calls_mean', stats->'tool_calls_mean',
        'tools', coalesce((
            select jsonb_agg(jsonb_build_object(
                'name', tool->'name', 'calls_per_rollout_mean', tool->'calls_per_rollout_mean') order by place)
            from jsonb_array_elements(stats->'tools') with ordinality as tools (tool, place)), '[]')) end;
create function drawn_of_step(record jsonb) returns json language sql immutable parallel safe return
    jsonb_build_object(
        'train', drawn_of_split(record->'train'),
        'valid', drawn_of_split(record->'valid'),
        'timing', record->'timing')::text::json;

-- A few numbers by which the steps that must be seen are found.
alter table steps
    add column drawn json generated always as (drawn_of_step(record)) stored,
    add column rollouts integer generated always as (
        coalesce((record #>> '{train,rollouts}')::integer, 0) + coalesce((record #>> '{valid,rollouts}')::integer, 0)
    ) stored,
    add column excluded integer generated always as (
        coalesce((record #>> '{train,excluded}')::integer, 0) + coalesce((record #>> '{valid,excluded}')::integer, 0)
    ) stored,
    add column train_reward double precision
        generated always as ((record #>> '{train,reward_mean}')::double precision) stored,
    add column valid_reward double precision
        generated always as ((record #>> '{valid,reward_mean}')::double precision) stored,
    add column tool_calls double precision
        generated always as ((record #>> '{train,tool_calls_mean}')::double precision) stored,
    add column completion_tokens double precision
        generated always as ((record #>> '{train,completion_tokens_mean}')::double precision) stored,
    add column duration_s double precision
        generated always as ((record #>> '{timing,full_step_s}')::double precision) stored;
drop index steps_evaluated;
create index steps_validated on steps (job_id, step) where valid_reward is not null;

-- Every 256 steps in one row: how much they were, and where each curve was lowest and highest.
create table step_stretches (
    job_id      text not null,
    last_step   integer not null,
    steps       bigint not null,
    rollouts    bigint not null,
    excluded    bigint not null,
    lowest      double precision[] not null,        -- of train_reward, valid_reward, tool_calls, completion_tokens
    lowest_at   integer[] not null,                 -- the latest step that was so low
    highest     double precision[] not null,        -- of the same, and of excluded and duration_s
    highest_at  integer[] not null,
    primary key (job_id, last_step),
    -- A run that goes back to a checkpoint voids steps, and the stretches they end.
    foreign key (job_id, last_step) references steps (job_id, step) on delete cascade
);

-- The baseline, step 0, has no part in the lows and highs: it is always seen, and would hide others.
create function measured_stretch(job text, first integer, last integer) returns step_stretches
language sql stable parallel safe begin atomic
    select job, max(step), count(*), coalesce(sum(rollouts), 0), coalesce(sum(excluded), 0),
        array[
            min(train_reward) filter (where step > 0), min(valid_reward) filter (where step > 0),
            min(tool_calls) filter (where step > 0), min(completion_tokens) filter (where step > 0)],
        array[
            (array_agg(step order by train_reward, step desc) filter (where step > 0))[1],
            (array_agg(step order by valid_reward, step desc) filter (where step > 0))[1],
            (array_agg(step order by tool_calls, step desc) filter (where step > 0))[1],
            (array_agg(step order by completion_tokens, step desc) filter (where step > 0))[1]],
        array[
            max(train_reward) filter (where step > 0), max(valid_reward) filter (where step > 0),
            max(tool_calls) filter (where step > 0), max(completion_tokens) filter (where step > 0),
            max(excluded) filter (where step > 0), max(duration_s) filter (where step > 0)],
        array[
            (array_agg(step order by train_reward desc nulls last, step desc) filter (where step > 0))[1],
            (array_agg(step order by valid_reward desc nulls last, step desc) filter (where step > 0))[1],
            (array_agg(step order by tool_calls desc nulls last, step desc) filter (where step > 0))[1],
            (array_agg(step order by completion_tokens desc nulls last, step desc) filter (where step > 0))[1],
            (array_agg(step order by excluded desc, step desc) filter (where step > 0))[1],
            (array_agg(step order by duration_s desc nulls last, step desc) filter (where step > 0))[1]]
    from steps where job_id = job and step between first and last;
end;

create function remember_stretch() returns trigger language plpgsql as $$
declare
    last integer := new.step - new.step % 256 + 255;
begin
    delete from step_stretches where job_id = new.job_id and last_step = last;
    insert into step_stretches select measured.*
        from steps cross join lateral measured_stretch(job_id, step - 255, step) measured
        where steps.job_id = new.job_id and steps.step = last;
    return null;
end $$;
create trigger stretch_is_complete after insert on steps
    for each row when (new.step % 256 = 255) execute function remember_stretch();
create trigger stretch_has_changed after update of record on steps
    for each row execute function remember_stretch();
insert into step_stretches select measured.*
    from steps cross join lateral measured_stretch(job_id, step - 255, step) measured where step % 256 = 255;

-- What people read, among a long job's metrics.
create index job_events_messages on job_events (job_id, seq desc) where type = 'message';
