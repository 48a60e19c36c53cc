-- The interval of a split's mean reward is drawn with it. Steps that are stored have none.

create or replace function drawn_of_split(stats jsonb) returns jsonb language sql immutable parallel safe return
    case when jsonb_typeof(stats) = 'object' then jsonb_build_object(
        'rollouts', stats->'rollouts',
        'excluded', stats->'excluded',
        'failures_by_code', stats->'failures_by_code',
        'reward_mean', stats->'reward_mean',
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
