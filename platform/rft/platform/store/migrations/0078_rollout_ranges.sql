-- What the figures of a job's rollouts lie between, for each 32 steps of a split: a filter that nothing fits, or that
-- fits what a part of the steps has, looks no further (`make bench-web`).
create table rollout_ranges (
    job_id          text not null references jobs (id) on delete cascade,
    split           text not null,
    steps           integer not null,              -- `step / 32`
    least_reward    double precision,              -- null: none has a reward
    most_reward     double precision,
    has_unscored    boolean not null,
    least_tokens    integer not null,
    most_tokens     integer not null,
    least_duration  double precision not null,     -- in seconds
    most_duration   double precision not null,
    tool_bits       bigint not null,
    stop_reasons    text[] not null,
    failure_codes   text[] not null,
    primary key (job_id, split, steps)
);

-- They only widen: steps that are done again leave wider ones than need be.
create function widen_rollout_ranges() returns trigger language plpgsql as $$
begin
    insert into rollout_ranges as known
        select job_id, split, step / 32, min(reward), max(reward), bool_or(reward is null),
            min(completion_tokens), max(completion_tokens), min(duration_s), max(duration_s), bit_or(tool_bits),
            array_remove(array_agg(distinct stop_reason), null), array_remove(array_agg(distinct failure_code), null)
        from stored
        group by job_id, split, step / 32
    on conflict (job_id, split, steps) do update set
        least_reward = least(known.least_reward, excluded.least_reward),
        most_reward = greatest(known.most_reward, excluded.most_reward),
        has_unscored = known.has_unscored or excluded.has_unscored,
        least_tokens = least(known.least_tokens, excluded.least_tokens),
        most_tokens = greatest(known.most_tokens, excluded.most_tokens),
        least_duration = least(known.least_duration, excluded.least_duration),
        most_duration = greatest(known.most_duration, excluded.most_duration),
        tool_bits = known.tool_bits | excluded.tool_bits,
        stop_reasons = array(select unnest(known.stop_reasons) union select unnest(excluded.stop_reasons)),
        failure_codes = array(select unnest(known.failure_codes) union select unnest(excluded.failure_codes));
    return null;
end $$;
create trigger rollouts_have_ranges after insert on rollouts
    referencing new table as stored
    for each statement execute function widen_rollout_ranges();

insert into rollout_ranges
    select job_id, split, step / 32, min(reward), max(reward), bool_or(reward is null),
        min(completion_tokens), max(completion_tokens), min(duration_s), max(duration_s), bit_or(tool_bits),
        array_remove(array_agg(distinct stop_reason), null), array_remove(array_agg(distinct failure_code), null)
    from rollouts
    group by job_id, split, step / 32;
