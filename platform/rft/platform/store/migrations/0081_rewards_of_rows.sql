-- A split's reward is the mean that its interval is of, over rows; over rollouts where a record has no estimate.

create or replace function drawn_of_split(stats jsonb) returns jsonb language sql immutable parallel safe return
    case when jsonb_typeof(stats) = 'object' then jsonb_build_object(
        'rollouts', stats->'rollouts',
        'excluded', stats->'excluded',
        'failures_by_code', stats->'failures_by_code',
        'reward_mean', coalesce(stats#>'{reward_estimate,mean}', stats->'reward_mean'),
        'reward_low', stats#>'{reward_estimate,low}',
        'reward_high', stats#>'{reward_estimate,high}',
        'reward_mean_if_failures_were_zero', stats->'reward_mean_if_failures_were_zero',
        'grader_scores_mean', stats->'grader_scores_mean',
        'completion_tokens_mean', stats->'completion_tokens_mean',
        'tool_calls_mean', stats->'tool_calls_mean',
        'tools', coalesce((
            select jsonb_agg(jsonb_build_object(
                'name', tool->'name', 'calls_per_rollout_mean', tool->'calls_per_rollout_mean') order by place)
            from jsonb_array_elements(stats->'tools') with ordinality as tools (tool, place)), '[]')) end;

-- Steps that are stored are worked out anew with their columns.
drop index steps_validated;
alter table steps drop column drawn, drop column train_reward, drop column valid_reward;
alter table steps
    add column drawn json generated always as (drawn_of_step(record)) stored,
    add column train_reward double precision generated always as (coalesce(
        record #>> '{train,reward_estimate,mean}', record #>> '{train,reward_mean}')::double precision) stored,
    add column valid_reward double precision generated always as (coalesce(
        record #>> '{valid,reward_estimate,mean}', record #>> '{valid,reward_mean}')::double precision) stored;
create index steps_validated on steps (job_id, step) where valid_reward is not null;

update checkpoints set metrics = metrics
    || jsonb_build_object('train_mean_reward', train_reward, 'full_valid_mean_reward', valid_reward)
from steps where steps.job_id = checkpoints.job_id and steps.step = checkpoints.step
    and ((metrics ->> 'train_mean_reward')::double precision <> train_reward
        or (metrics ->> 'full_valid_mean_reward')::double precision <> valid_reward);

-- As `worker/step_bucket_repository.py` does.
update step_buckets set extremes = array(
    with curve as (
        select name, step, value from steps cross join lateral (values
            (1, train_reward), (2, valid_reward), (3, tool_calls), (4, completion_tokens), (5, excluded),
            (6, duration_s)
        ) as curves (name, value)
        where job_id = step_buckets.job_id and step between step_buckets.last_step - 255 and step_buckets.last_step
            and value is not null and step > 0
    )
    (select distinct on (name) step from curve order by name, value, step desc)
    union
    (select distinct on (name) step from curve order by name, value desc, step desc)
);
